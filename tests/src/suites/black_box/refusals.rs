//! Bad input: the envelope with a message that names what is wrong, the right status, and nothing changed.

use super::target::text;
use super::{SMALL, SMALL_MAX, Target, Watch};
use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;

pub async fn a_provision_with_bad_values_is_refused(target: &Target) -> Result<()> {
    target.at_rest(SMALL).await?;
    let watch = Watch::over(target, &[SMALL]).await?;
    for (field, value, named) in [
        ("count", json!(0), "count"),
        ("count", json!(SMALL_MAX + 1), "count"),
        ("count", json!(u32::MAX), "count"),
        ("count", json!(4_294_967_296_u64), "count"),
        ("count", json!(-1), "count"),
        ("count", json!(1.5), "count"),
        ("count", json!("2"), "count"),
        ("count", json!(true), "count"),
        ("count", json!(null), "count"),
        ("count", json!([1]), "count"),
        ("max_runtime_minutes", json!(0), "max_runtime_minutes"),
        ("max_runtime_minutes", json!(31), "max_runtime_minutes"),
        ("max_runtime_minutes", json!(u64::MAX), "max_runtime_minutes"),
        ("max_runtime_minutes", json!(-1), "max_runtime_minutes"),
        ("max_runtime_minutes", json!("5"), "max_runtime_minutes"),
        ("usage", json!("cheap"), "cheap"),
        ("usage", json!(1), "usage"),
        ("usage", json!("spot"), "spot"),
        ("allowed_instance_types", json!(""), "allowed_instance_types"),
        ("allowed_instance_types", json!("   "), "allowed_instance_types"),
        ("allowed_instance_types", json!("c* [m]"), "[m]"),
        ("allowed_instance_types", json!("C5.large"), "C5.large"),
        ("allowed_instance_types", json!("a ".repeat(21)), "allowed_instance_types"),
        ("allowed_instance_types", json!("a".repeat(65)), "allowed_instance_types"),
        ("allowed_instance_types", json!(["c*"]), "allowed_instance_types"),
        ("allowed_instance_types", json!("z9.*"), "z9.*"),
        ("resource_class", json!("huge"), "large"),
        ("resource_class", json!(""), "resource class"),
        ("resource_class", json!({"cpu": 1}), "resource_class"),
        ("resource_class", json!("large"), "CPUs"),
        ("workflow", json!(""), "workflow"),
        ("workflow", json!("w".repeat(129)), "workflow"),
        ("workflow", json!(7), "workflow"),
        ("pool", json!(""), "pool"),
        ("pool", json!("SMALL"), "pool"),
        ("pool", json!("p".repeat(49)), "pool"),
        ("pool", json!(["small"]), "pool"),
    ] {
        let mut ask = json!({"workflow": target.name("bad"), "pool": SMALL});
        ask[field] = value.clone();
        let answer = target.api.post("provision", ask).await?;
        watch
            .refused_naming(answer, 400, "invalid_request", named)
            .await
            .with_context(|| format!("{field}: {value}"))?;
    }
    let ask = json!({"workflow": target.name("bad"), "pool": "nowhere"});
    watch
        .refused_naming(target.api.post("provision", ask.clone()).await?, 404, "not_found", "nowhere")
        .await?;
    watch.refused_naming(target.api.post("claim", ask).await?, 404, "not_found", "nowhere").await?;
    Ok(())
}

pub async fn refuse_18_unknown_and_missing_fields_are_named(target: &Target) -> Result<()> {
    let pool = target.metal_pool("fields", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for (path, body, named) in [
        ("provision", json!({"workflow": "w", "pool": pool, "cuont": 2}), "cuont"),
        ("provision", json!({"pool": pool}), "workflow"),
        ("provision", json!({"workflow": "w"}), "pool"),
        ("provision", json!({}), "workflow"),
        ("claim", json!({"workflow": "w", "pool": pool, "count": 1}), "count"),
        ("claim", json!({"workflow": "w"}), "pool"),
        ("release", json!({}), "workflow"),
        ("release", json!({"workflow": "w", "claim": "c-1"}), "claim"),
        ("runners", json!({"runner_id": "x", "pool": pool, "type": "mac"}), "type"),
        ("runners", json!({"pool": pool}), "runner_id"),
        ("runners", json!({"runner_id": "x"}), "pool"),
        ("runners", json!({"runner_id": "x", "pool": pool, "cpu": "4"}), "cpu"),
        ("runners", json!({"runner_id": "x", "pool": pool, "memory_mb": -4}), "memory_mb"),
        ("agent/bootstrap", json!({"runner": "x"}), "secret"),
        ("agent/sync", json!({"runner": "x"}), "epoch"),
        ("agent/registration", json!({"runner": "x"}), "epoch"),
    ] {
        let answer = target.api.post(path, body).await?;
        watch.refused_naming(answer, 400, "invalid_request", named).await.context(path)?;
    }
    for path in ["refresh?sweep=later", "refresh?sweeep=now", "refresh?sweep="] {
        watch.refused(target.api.post(path, json!({})).await?, 400, "invalid_request").await.context(path)?;
    }
    Ok(())
}

/// A machine of no hardware would fit nothing, and its pool's own settings are refused for the same.
pub async fn a_machine_without_hardware_is_refused(target: &Target) -> Result<()> {
    let pool = target.metal_pool("hardware", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for (field, value) in [
        ("cpu", json!(0)),
        ("memory_mb", json!(0)),
        ("instance_type", json!("")),
        ("instance_type", json!("a".repeat(65))),
    ] {
        let mut body = json!({"runner_id": target.name("hardware-1"), "pool": pool});
        body[field] = value;
        let answer = target.api.post("runners", body).await?;
        watch.refused_naming(answer, 400, "invalid_request", field).await.context(field)?;
    }
    Ok(())
}

/// Every route that takes a body, with something that is no body for it.
pub async fn refuse_18_what_is_not_json_is_refused(target: &Target) -> Result<()> {
    let pool = target.metal_pool("json", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let deep =
        [("[".repeat(10_000), "]".repeat(10_000)), (r#"{"workflow":"#.repeat(10_000), "}".repeat(10_000))];
    let deep_field =
        format!(r#"{{"workflow":{}"x"{},"pool":"{pool}"}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let mut bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"  \n ".to_vec(),
        b"provision two please".to_vec(),
        b"{".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        // The right values in the right order, but no object.
        format!(r#"["w","{pool}"]"#).into_bytes(),
        format!(r#"["w","{pool}",1,null,null,null,null]"#).into_bytes(),
        b"\"small\"".to_vec(),
        b"{\"workflow\":\"w\",}".to_vec(),
        b"{'workflow':'w'}".to_vec(),
        b"\xff\xfe{}".to_vec(),
        b"{\"workflow\":\"\xc3\x28\"}".to_vec(),
        format!(r#"{{"workflow":"w","pool":"{pool}"}} and more"#).into_bytes(),
        format!(r#"{{"workflow":"w","workflow":"v","pool":"{pool}"}}"#).into_bytes(),
        format!(r#"{{"workflow":"w","pool":"{pool}","count":1e400}}"#).into_bytes(),
        deep_field.into_bytes(),
    ];
    bodies.extend(deep.into_iter().map(|(open, close)| format!("{open}1{close}").into_bytes()));
    for path in
        ["provision", "claim", "release", "runners", "agent/bootstrap", "agent/sync", "agent/registration"]
    {
        for body in &bodies {
            let what = || format!("{path} with {:.40}", String::from_utf8_lossy(body));
            // Longer ones are too large for most routes; these are not too large, only too deep.
            let expected = if body.len() > 64 * 1024 && path != "agent/sync" { 413 } else { 400 };
            let answer =
                target.api.post_raw(path, "application/json", body.clone()).await.with_context(what)?;
            watch.refused(answer, expected, "invalid_request").await.with_context(what)?;
        }
    }
    Ok(())
}

pub async fn a_body_of_another_kind_is_refused(target: &Target) -> Result<()> {
    let pool = target.metal_pool("kind", json!({})).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    let body = json!({"workflow": "w", "pool": pool}).to_string();
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/xml", "application/jsonp", ""]
    {
        let answer = target.api.post_raw("provision", kind, body.clone()).await?;
        watch
            .refused(answer, 415, "invalid_request")
            .await
            .with_context(|| format!("content type {kind:?}"))?;
    }
    let unsaid = target.api.request(Method::POST, "provision").body(body.clone());
    watch.refused(target.api.send(unsaid).await?, 415, "invalid_request").await?;
    let answer = target.api.post_raw("provision", "Application/JSON; charset=utf-8", body).await?;
    ensure!(answer.status == 202, "{answer:?}");
    Ok(())
}

pub async fn unknown_paths_and_methods_are_refused(target: &Target) -> Result<()> {
    let pool = target.metal_pool("paths", json!({})).await?;
    let claim = target.api.provision("paths", &pool, 1).await?;
    let watch = Watch::over(target, &[&pool]).await?;
    for path in [
        "/",
        "/api",
        "/api/v1",
        "/api/v2/pools",
        "provisions",
        "pools/a/b",
        "claims/c-1/why/not",
        "runners/x/y",
        "admin",
    ] {
        let answer = target.api.get(path).await?;
        watch.refused(answer, 404, "not_found").await.with_context(|| format!("GET {path}"))?;
    }
    let claim_path = format!("claims/{}", text(&claim, "claim"));
    for (method, path) in [
        (Method::GET, "provision"),
        (Method::PUT, "provision"),
        (Method::DELETE, "release"),
        (Method::GET, "refresh"),
        (Method::POST, "pools"),
        (Method::DELETE, "pools"),
        (Method::PATCH, "pools/metal"),
        (Method::POST, &claim_path),
        (Method::DELETE, &claim_path),
        (Method::PUT, "runners"),
        (Method::GET, "agent/sync"),
        (Method::GET, "agent/registration"),
        (Method::POST, "/health"),
    ] {
        let answer = target.api.send(target.api.request(method.clone(), path)).await?;
        let told = || format!("{method} {path}");
        watch.refused(answer, 405, "invalid_request").await.with_context(told)?;
    }
    Ok(())
}

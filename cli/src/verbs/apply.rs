//! `pools apply`: defines the pools of a file over the API; with `--dry-run`, says what they would launch, where, and at about what price.

use std::collections::BTreeMap;
use std::path::Path;

use motorpool_domain::PoolName;
use motorpool_wire::api::{CapacityOptionView, PlanView, PoolView};
use motorpool_wire::pool_settings::PoolSettings;
use serde_json::{Value, json};

use crate::client::Client;
use crate::errors::{Failure, chain};
use crate::output::Report;
use crate::output::table::table;
use crate::output::words::{dollars, some};
use crate::pools_file;

/// A ladder may have hundreds of rungs; the first are those that will be used.
const SHOWN: usize = 20;

pub(crate) async fn run(client: &Client, file: &Path, dry_run: bool) -> Result<Report, Failure> {
    let pools = pools_file::load_pools(file)
        .map_err(|error| Failure::failed(chain(&error), "nothing was changed; correct the file"))?;
    if pools.is_empty() {
        return Err(Failure::failed(
            format!("{} has no pools", file.display()),
            "define one, such as [pools.small]",
        ));
    }
    if dry_run { plan(client, &pools).await } else { apply(client, &pools).await }
}

/// What was defined before one was refused stays, and is told.
async fn apply(client: &Client, pools: &BTreeMap<PoolName, PoolSettings>) -> Result<Report, Failure> {
    let (mut documents, mut lines, mut failure) = (Vec::new(), Vec::new(), None);
    for (name, settings) in pools {
        match client.put_pool(name, settings).await {
            Ok(answer) => {
                let PoolView { max, min_idle, backend, warnings, .. } = &answer.value;
                lines.push(format!("pool {name} is defined: {backend}, {}", limits(*max, *min_idle)));
                lines.extend(warnings.iter().map(|warning| format!("  but {warning}")));
                documents.push(answer.json);
            }
            Err(refused) => {
                failure = Some(Failure { message: format!("pool {name}: {}", refused.message), ..refused });
                break;
            }
        }
    }
    Ok(Report::new(json!({ "pools": documents }), lines.join("\n")).failing(failure))
}

async fn plan(client: &Client, pools: &BTreeMap<PoolName, PoolSettings>) -> Result<Report, Failure> {
    let mut documents: Vec<Value> = Vec::new();
    let (mut stories, mut hopeless) = (Vec::new(), Vec::new());
    for (name, settings) in pools {
        let refused =
            |failure: Failure| Failure { message: format!("pool {name}: {}", failure.message), ..failure };
        let present = match client.pool(name).await {
            Ok(answer) => Some(answer.value),
            Err(failure) if failure.is_not_found() => None,
            Err(failure) => return Err(refused(failure)),
        };
        let answer = client.plan_pool(name, settings).await.map_err(refused)?;
        stories.push(story(&answer.value, settings, present.as_ref()));
        if settings.backend.launches() && answer.value.rungs.is_empty() {
            hopeless.push(name.to_string());
        }
        documents.push(answer.json);
    }
    stories.push("Nothing was changed.".to_owned());
    let failure = (!hopeless.is_empty()).then(|| {
        let which = hopeless.join(", ");
        Failure::failed(
            format!("no machine could be launched for {which}"),
            "correct the settings, and plan again",
        )
    });
    Ok(Report::new(json!({ "plans": documents }), stories.join("\n\n")).failing(failure))
}

fn limits(max: u32, min_idle: u32) -> String {
    let idle = if min_idle == 0 { "none".to_owned() } else { format!("at least {min_idle}") };
    format!("at most {}, {idle} kept idle", some(max, "runner"))
}

fn story(plan: &PlanView, settings: &PoolSettings, present: Option<&PoolView>) -> String {
    let PlanView { pool, max, min_idle, rungs, refused, warnings, problems } = plan;
    let mut parts = vec![format!("pool {pool}: {}", limits(*max, *min_idle)), changes(settings, present)];
    if let Some(why) = refused {
        parts.push(format!("Without --dry-run this would be refused now: {why}."));
    }
    parts.extend(warnings.iter().map(|warning| format!("But {warning}.")));
    if !problems.is_empty() {
        parts.push("Its machines can't be launched with these settings:".to_owned());
        parts.extend(problems.iter().map(|problem| format!("- {problem}")));
        return parts.join("\n");
    }
    if rungs.is_empty() {
        parts.push(match settings.backend.launches() {
            true => {
                "No machine fits: nothing could be launched. Ask for less, or allow more types.".to_owned()
            }
            false => "Its machines are registered, and never launched.".to_owned(),
        });
        return parts.join("\n");
    }
    parts.push("It would launch the first of these that the provider has:".to_owned());
    parts.push(ladder(rungs));
    parts.push(price(rungs, *max, *min_idle));
    parts.join("\n")
}

/// What a caller can see of the present definition, which is not all of it.
fn changes(settings: &PoolSettings, present: Option<&PoolView>) -> String {
    let Some(present) = present else { return "It is new.".to_owned() };
    if present.source == "file" && !present.retired {
        return "It stands in the server's own pools file: without --dry-run this would be refused."
            .to_owned();
    }
    let scope = |ci: Option<(&str, &str)>| {
        ci.map_or("none".to_owned(), |(system, scope)| format!("{system} {scope}"))
    };
    let old_ci = present.ci.as_ref().map(|ci| (ci.system.name(), ci.scope.as_str()));
    let new_ci = settings.ci.as_ref().map(|ci| (ci.system.name(), ci.scope.as_str()));
    let changed: Vec<String> = [
        ("backend", present.backend.clone(), settings.backend.name().to_owned()),
        ("dispatch", present.dispatch.clone(), settings.dispatch.name().to_owned()),
        (
            "clean",
            present.clean.clone(),
            settings.clean.unwrap_or(settings.backend.clean_by_default()).name().to_owned(),
        ),
        ("max", present.max.to_string(), settings.max.to_string()),
        ("min_idle", present.min_idle.to_string(), settings.min_idle.to_string()),
        ("ci", scope(old_ci), scope(new_ci)),
    ]
    .into_iter()
    .filter(|(_, old, new)| old != new)
    .map(|(what, old, new)| format!("{what} {old} → {new}"))
    .collect();
    if changed.is_empty() {
        "It is there already, with the same limits; what it is made of may differ.".to_owned()
    } else {
        format!("It is there already, and would change: {}.", changed.join(", "))
    }
}

fn ladder(rungs: &[CapacityOptionView]) -> String {
    let rows = rungs.iter().take(SHOWN).enumerate().map(|(place, rung)| {
        let CapacityOptionView { instance_type, usage, zone, cpu, memory_mb, hourly_usd, empty } = rung;
        vec![
            (place + 1).to_string(),
            instance_type.clone(),
            usage.clone(),
            zone.clone().unwrap_or_else(|| "-".to_owned()),
            cpu.to_string(),
            memory_mb.to_string(),
            hourly_usd.map_or_else(|| "not known".to_owned(), dollars),
            empty.clone().unwrap_or_default(),
        ]
    });
    let mut text = table(&["", "TYPE", "USAGE", "ZONE", "CPUS", "MB", "AN HOUR", "PASSED OVER NOW"], rows);
    if rungs.len() > SHOWN {
        text.push_str(&format!("\nand {} more, which --json shows", rungs.len() - SHOWN));
    }
    text
}

fn price(rungs: &[CapacityOptionView], max: u32, min_idle: u32) -> String {
    let known = || rungs.iter().filter_map(|rung| rung.hourly_usd);
    let Some(dearest) = known().reduce(f64::max) else {
        return "What it costs is not known.".to_owned();
    };
    let first = rungs.iter().find(|rung| rung.empty.is_none()).and_then(|rung| rung.hourly_usd);
    let mut parts = Vec::new();
    if let Some(first) = first {
        parts.push(format!("A runner costs about {} an hour at present", dollars(first)));
        if min_idle > 0 {
            parts.push(format!("the {min_idle} kept idle about {}", dollars(first * f64::from(min_idle))));
        }
    }
    parts.push(format!(
        "all {max} at once, of the dearest of these, at most about {} an hour",
        dollars(dearest * f64::from(max))
    ));
    let unknown = rungs.len() - known().count();
    let unknown =
        if unknown == 0 { String::new() } else { format!(" The prices of {unknown} are not known.") };
    format!("{}.{unknown}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(
        instance_type: &str,
        usage: &str,
        hourly_usd: Option<f64>,
        empty: Option<&str>,
    ) -> CapacityOptionView {
        CapacityOptionView {
            instance_type: instance_type.to_owned(),
            usage: usage.to_owned(),
            zone: Some("eu-central-1a".to_owned()),
            cpu: 4,
            memory_mb: 8192,
            hourly_usd,
            empty: empty.map(str::to_owned),
        }
    }

    fn settings() -> PoolSettings {
        let text = "[pools.big]\nbackend = \"local\"\nmax = 10";
        pools_file::parse_pools(text, "p").unwrap().remove(&PoolName::parse("big").unwrap()).unwrap()
    }

    fn plan(rungs: Vec<CapacityOptionView>) -> PlanView {
        PlanView {
            pool: PoolName::parse("big").unwrap(),
            max: 10,
            min_idle: 2,
            rungs,
            refused: None,
            warnings: Vec::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn what_the_provider_finds_wrong_stands_where_the_ladder_would() {
        let problems = ["image: EC2 has no ami-1", "subnets: EC2 has no subnet-1"].map(str::to_owned);
        assert_eq!(
            story(&PlanView { problems: problems.to_vec(), ..plan(Vec::new()) }, &settings(), None),
            "pool big: at most 10 runners, at least 2 kept idle\n\
             It is new.\n\
             Its machines can't be launched with these settings:\n\
             - image: EC2 has no ami-1\n\
             - subnets: EC2 has no subnet-1"
        );
    }

    #[test]
    fn a_plan_says_what_where_and_for_how_much() {
        let rungs = vec![
            rung("c7a.xlarge", "spot", Some(0.0712), Some("InsufficientInstanceCapacity")),
            rung("c6a.xlarge", "spot", Some(0.08), None),
            rung("c6a.xlarge", "on-demand", Some(0.174), None),
            rung("c9x.xlarge", "on-demand", None, None),
        ];
        assert_eq!(
            story(&plan(rungs), &settings(), None),
            "pool big: at most 10 runners, at least 2 kept idle\n\
             It is new.\n\
             It would launch the first of these that the provider has:\n\
             \x20  TYPE        USAGE      ZONE           CPUS  MB    AN HOUR    PASSED OVER NOW\n\
             1  c7a.xlarge  spot       eu-central-1a  4     8192  $0.0712    InsufficientInstanceCapacity\n\
             2  c6a.xlarge  spot       eu-central-1a  4     8192  $0.0800\n\
             3  c6a.xlarge  on-demand  eu-central-1a  4     8192  $0.1740\n\
             4  c9x.xlarge  on-demand  eu-central-1a  4     8192  not known\n\
             A runner costs about $0.0800 an hour at present; the 2 kept idle about $0.1600; \
             all 10 at once, of the dearest of these, at most about $1.74 an hour. The prices of 1 are not known."
        );
    }

    #[test]
    fn a_long_ladder_is_cut_and_an_empty_one_is_said() {
        let long = story(&plan(vec![rung("m5.large", "spot", Some(0.1), None); 25]), &settings(), None);
        assert!(long.contains("and 5 more, which --json shows"), "{long}");
        assert!(story(&plan(Vec::new()), &settings(), None).contains("No machine fits"));
        let unknown = story(&plan(vec![rung("x", "spot", None, None)]), &settings(), None);
        assert!(unknown.ends_with("What it costs is not known."), "{unknown}");
    }

    #[test]
    fn what_would_change_is_told() {
        let mut present = PoolView {
            clean: "keep".to_owned(),
            max: 5,
            source: "api".to_owned(),
            ..crate::verbs::pools::tests::pool()
        };
        assert_eq!(
            changes(&settings(), Some(&present)),
            "It is there already, and would change: clean keep → cleanup, max 5 → 10."
        );
        present.source = "file".to_owned();
        assert!(changes(&settings(), Some(&present)).contains("would be refused"));
    }
}

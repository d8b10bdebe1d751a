//! The black-box suite of the pool layer against the functions: one deployment, one serve beside it as the host of the local
//! machines, and every case. Failures are told together.

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use motorpool_functions::routes::Function;
use motorpool_tests::harness::functions_target::{Functions, SharedLedger};
use motorpool_tests::harness::serve::Serve;
use motorpool_tests::suites::black_box::Target;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Case<'a> = (&'static str, LocalBoxFuture<'a, Result<()>>);

macro_rules! all_of_them {
    ($($subject:ident: $($case:ident),+;)+) => {
        fn cases(target: &Target) -> Vec<Case<'_>> {
            vec![$($((
                concat!(stringify!($subject), "::", stringify!($case)),
                motorpool_tests::suites::black_box::$subject::$case(target).boxed_local(),
            ),)+)+]
        }
    };
}

motorpool_tests::with_black_box_cases!(all_of_them);

#[tokio::test(flavor = "multi_thread")]
async fn the_black_box_suite_passes_on_the_functions() -> Result<()> {
    let ledger = SharedLedger::fresh();
    let host = Serve::start_on(&ledger, &Target::pools_file())?;
    let functions = Functions::deploy(&ledger, &Target::settings()).await?;
    let target = Target::of_functions(functions.api().clone(), "1");
    let (cases, mut failures) = (cases(&target), Vec::new());
    let count = cases.len();
    for (name, case) in cases {
        eprintln!("{name}");
        if let Err(error) = case.await {
            failures.push(format!("{name}: {error:#}"));
        }
    }
    functions.refresh().await.context("a schedule's event")?;
    let failed = functions.finalize().await.context("a batch of notices")?;
    if failed != json!({"batchItemFailures": [{"itemIdentifier": "2e1424d4-f796-459a-8184-9c92662be6da"}]}) {
        failures.push(format!("of a batch, not only what failed comes again: {failed}"));
    }
    for function in Function::ALL {
        if let Err(error) = log_is_sound(&functions.log(function).await?) {
            failures.push(format!("the log of {}: {error:#}", function.name()));
        }
    }
    functions.end().await.context("the functions' end")?;
    ensure!(
        failures.is_empty(),
        "{} of {count} cases failed:\n{}\n--- the log of the serve beside ---\n{}",
        failures.len(),
        failures.join("\n"),
        host.log()
    );
    Ok(())
}

/// What begins with one of these is a token, or a part of one.
const SECRETS: [&str; 6] = ["mp_admin_", "mp_team_", "mp_runner_", "mp_launch_", "mp_server_", "mp_webhook_"];

/// Each line is an object and says which invocation it belongs to; refusal 17: none of them tells a token.
fn log_is_sound(lines: &[String]) -> Result<()> {
    let begun: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("START RequestId: ")?.split_whitespace().next())
        .collect();
    let platforms = ["START ", "END ", "REPORT "];
    let ours: Vec<&String> =
        lines.iter().filter(|line| !platforms.iter().any(|begins| line.starts_with(begins))).collect();
    ensure!(!ours.is_empty(), "nothing is logged");
    for line in ours {
        let read: Value = serde_json::from_str(line).with_context(|| format!("no JSON: {line}"))?;
        let id = read["spans"][0]["requestId"].as_str().unwrap_or_default();
        ensure!(begun.contains(id), "not of an invocation: {line}");
        ensure!(!SECRETS.iter().any(|secret| line.contains(secret)), "a secret: {line}");
    }
    Ok(())
}

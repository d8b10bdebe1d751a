//! The black-box suite of the pool layer against `serve`: each case has a serve of its own.

use anyhow::{Context, Result};
use motorpool_tests::harness::serve::{Serve, fresh_dir};
use motorpool_tests::suites::black_box::Target;
use std::collections::BTreeSet;
use std::path::Path;

macro_rules! each_on_its_own_serve {
    ($($subject:ident: $($case:ident),+;)+) => {
        $(mod $subject {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() -> anyhow::Result<()> {
                super::on_its_own_serve(motorpool_tests::suites::black_box::$subject::$case).await
            })+
        })+

        const LISTED: &[(&str, &str)] = &[$($((stringify!($subject), stringify!($case)),)+)+];
    };
}

motorpool_tests::with_black_box_cases!(each_on_its_own_serve);

async fn on_its_own_serve(case: impl AsyncFn(&Target) -> Result<()>) -> Result<()> {
    let dir = fresh_dir()?;
    let pools = Target::pools_file_with_webhooks(dir.path())?;
    let serve = Serve::start_in(dir, &pools, Vec::new())?;
    let outcome = case(&Target::new(serve.api().clone(), "1")).await;
    outcome.with_context(|| format!("--- the end of serve's log ---\n{}\n---", end_of(&serve.log())))
}

fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(30)).copied().collect::<Vec<_>>().join("\n")
}

/// A case that is written but not listed would never run.
#[test]
fn every_case_is_listed() -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suites/black_box");
    let mut written = BTreeSet::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let subject = path.file_stem().and_then(|stem| stem.to_str()).context("a module's name")?.to_owned();
        let source = std::fs::read_to_string(&path)?.replace('\n', " ");
        for found in source.split("pub async fn ").skip(1) {
            let (name, rest) = found.split_once('(').context("a function")?;
            let head = rest.split_once('{').map_or("", |(head, _)| head.trim_start());
            if head.starts_with("target: &Target") && head.contains("-> Result<()>") {
                written.insert((subject.clone(), name.to_owned()));
            }
        }
    }
    let listed: BTreeSet<(String, String)> =
        LISTED.iter().map(|(subject, case)| ((*subject).to_owned(), (*case).to_owned())).collect();
    assert_eq!(written, listed);
    Ok(())
}

//! The tests that passed only when they were tried again, as nextest's JUnit report tells.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cargo::Cargo;

/// The report of one test run, at the place that `.config/nextest.toml` names.
#[derive(Debug)]
pub(crate) struct Report(PathBuf);

impl Report {
    /// Removes that of an earlier run.
    pub(crate) fn fresh(cargo: &Cargo) -> Result<Self> {
        let path = cargo.root().join("target/nextest/default/junit.xml");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove the old {}", path.display()))
            }
            Ok(()) | Err(_) => Ok(Self(path)),
        }
    }

    /// Each flaky test, as `package::binary test`.
    pub(crate) fn flaky(&self) -> Result<Vec<String>> {
        let report = fs::read_to_string(&self.0)
            .with_context(|| format!("nextest left no report at {}", self.0.display()))?;
        Ok(flaky_in(&report))
    }
}

/// A test case with a failed try is flaky if it passed in the end; one that failed has `rerunFailure` instead. A `<` begins a tag
/// wherever it stands: in text and in values it is escaped.
fn flaky_in(report: &str) -> Vec<String> {
    let mut flaky = Vec::new();
    let mut case = None;
    for tag in report.split('<').skip(1) {
        let name = tag.split(|end: char| end.is_whitespace() || end == '>' || end == '/').next();
        match name {
            Some("testcase") => case = named(tag),
            Some("flakyFailure" | "flakyError") => flaky.extend(case.take()),
            Some(_) | None => {}
        }
    }
    flaky
}

fn named(tag: &str) -> Option<String> {
    Some(format!("{} {}", attribute(tag, "classname")?, attribute(tag, "name")?))
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = tag.split_once(&format!(" {name}=\""))?;
    value.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nextest 0.9.143 writes it, for one test that passes, one that is flaky and one that fails twice.
    const REPORT: &str = include_str!("flaky/junit.xml");

    #[test]
    fn only_what_passed_when_tried_again_is_flaky() {
        assert_eq!(flaky_in(REPORT), ["probe::flaky passes_the_second_time"]);
    }

    #[test]
    fn a_case_is_named_once_however_often_it_failed() {
        let report = r#"<testcase name="a::b" classname="p::t"><flakyFailure/><flakyError type="x">&lt;testcase</flakyError></testcase>
            <testcase name="c" classname="p::t"/><testcase name="d" classname="p"><rerunFailure/><failure/></testcase>"#;
        assert_eq!(flaky_in(report), ["p::t a::b"]);
        assert_eq!(flaky_in("").len(), 0);
    }
}

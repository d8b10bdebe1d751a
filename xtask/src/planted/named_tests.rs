//! Runs the tests that a planted bug names, as they are built in the tree that has it, and demands that one of them fails which proves what the bug
//! breaks. That they pass in a tree without it is shown by `cargo xtask test`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::patch::Broken;
use crate::cargo::{Cargo, output};
use crate::test::executable;

/// They take seconds; beyond this one of them hangs.
const WITHIN: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(50);

/// Its tests are quickly built, if none of its features is asked for: one of them brings the AWS SDK.
const LEDGER: &str = "motorpool-ledger";

/// In a header: `PACKAGE BINARY FILTER`, or `PACKAGE/FEATURE BINARY FILTER`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NamedTests {
    package: String,
    /// One that the package does not have by default.
    feature: Option<String>,
    binary: Binary,
    /// A part of the tests' names.
    filter: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Binary {
    /// The unit tests of the package's library: `lib`.
    Library,
    /// Those of its program, which has its name: `bin`.
    Program,
    /// One of its `tests/`.
    Named(String),
}

/// Tests that are built.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// The package's own, where cargo would run them.
    pub(super) folder: PathBuf,
}

impl NamedTests {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let &[package, binary, filter] = words.as_slice() else { bail!("{text:?} is not three words") };
        let (package, feature) = match package.split_once('/') {
            Some((package, feature)) => (package, Some(feature)),
            None => (package, None),
        };
        let parts = [Some(package), feature, Some(binary), Some(filter)];
        ensure!(parts.iter().flatten().all(|part| !part.is_empty()), "{text:?} has an empty part");
        let binary = match binary {
            "lib" => Binary::Library,
            "bin" => Binary::Program,
            named => Binary::Named(named.to_owned()),
        };
        let [package, filter] = [package, filter].map(str::to_owned);
        Ok(Self { package, feature: feature.map(str::to_owned), binary, filter })
    }

    pub(super) fn build_quickly(&self) -> bool {
        self.package == LEDGER && self.feature.is_none()
    }

    /// As they are in the tree at `root`. What can't be built is an error here, and so is never taken for a test that fails.
    pub(super) fn build(&self, cargo: &Cargo, root: &Path) -> Result<Program> {
        let Self { package, feature, binary, filter: _ } = self;
        let mut build = cargo.command(["test", "--no-run", "--package", package]);
        if let Some(feature) = feature {
            build.arg("--features").arg(format!("{package}/{feature}"));
        }
        let target = match binary {
            Binary::Library => {
                build.arg("--lib");
                package.replace('-', "_")
            }
            // Not the program itself: it is built with its unit tests in it, and put where those of libraries are.
            Binary::Program => {
                build.args(["--bin", package]);
                package.clone()
            }
            Binary::Named(name) => {
                // Cargo would build them with the tests, and put them where our own are.
                ensure!(
                    !cargo.makes_programs(package),
                    "{package} makes programs: of its tests, only those of its library and its program can be named"
                );
                build.args(["--test", name]);
                name.clone()
            }
        };
        build.arg("--manifest-path").arg(root.join("Cargo.toml"));
        build.arg("--target-dir").arg(cargo.target_directory());
        let said = output(build.arg("--message-format=json-render-diagnostics"))?;
        let said = String::from_utf8(said).context("cargo test wrote something that is not UTF-8")?;
        let found = said.lines().find_map(|line| program(line, &target));
        found.with_context(|| format!("cargo test made no {target}"))
    }

    /// Runs them, and says which failed. What they write is kept in a file beside them.
    pub(super) fn must_fail(
        &self,
        cargo: &Cargo,
        program: &Program,
        breaks: &BTreeSet<Broken>,
    ) -> Result<String> {
        let log = &program.path.with_extension("log");
        let written = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        let mut tests = cargo.tool(&program.path);
        tests.arg(&self.filter).current_dir(&program.folder).stdout(written);
        let ended = run(&mut tests).with_context(|| format!("its log is {}", log.display()))?;
        let said = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
        judge(&String::from_utf8_lossy(&said), ended, breaks)
    }
}

/// The tests of this name, if a line of cargo's JSON says that they were made or are fresh.
fn program(line: &str, target: &str) -> Option<Program> {
    let path = executable(line, target)?;
    let message: Value = serde_json::from_str(line).ok()?;
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    Some(Program { path, folder })
}

fn run(tests: &mut Command) -> Result<ExitStatus> {
    let mut child = tests.spawn().context("cannot start the tests")?;
    for _ in 0..WITHIN.as_millis() / PAUSE.as_millis() {
        if let Some(ended) = child.try_wait().context("cannot look after the tests")? {
            return Ok(ended);
        }
        thread::sleep(PAUSE);
    }
    child.kill().context("cannot end the tests")?;
    child.wait().context("cannot wait for the tests")?;
    bail!("the tests took longer than {} s, which is no find", WITHIN.as_secs())
}

fn judge(said: &str, ended: ExitStatus, breaks: &BTreeSet<Broken>) -> Result<String> {
    ensure!(!said.contains("\nrunning 0 tests\n"), "there are no such tests");
    ensure!(!ended.success(), "it is NOT found: the tests that it names pass");
    let failed: Vec<&str> = said.lines().filter_map(failed).collect();
    ensure!(!failed.is_empty(), "the tests ended with {ended}, and none of them failed:\n{said}");
    let found = failed.iter().find(|test| !proves(test).is_disjoint(breaks));
    let found = found.with_context(|| {
        let breaks: Vec<String> = breaks.iter().map(Broken::to_string).collect();
        format!("it is to break {}, and what failed is: {}", breaks.join(" or "), failed.join(", "))
    })?;
    Ok(match failed.len() - 1 {
        0 => format!("{found} fails"),
        others => format!("{found} fails, and {others} more"),
    })
}

/// `test together::fault_26_a_commit_that_fails ... FAILED`
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// What a test proves by its name: `inv_03_17_of_many_one_wins`, `inv_07_fault_15_again_is_done`, `refuse_24_a_flood`.
fn proves(test: &str) -> BTreeSet<Broken> {
    let name = test.rsplit("::").next().unwrap_or(test);
    let mut kind: Option<fn(u8) -> Broken> = None;
    let mut proves = BTreeSet::new();
    for word in name.split('_') {
        match (word, kind, word.parse()) {
            ("inv", _, _) => kind = Some(Broken::Invariant),
            ("fault", _, _) => kind = Some(Broken::Fault),
            ("refuse", _, _) => kind = Some(Broken::Refusal),
            (_, Some(kind), Ok(number)) => {
                proves.insert(kind(number));
            }
            (_, _, _) => break,
        }
    }
    proves
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const INV_2: Broken = Broken::Invariant(2);
    const FAULT_26: Broken = Broken::Fault(26);

    fn tests(package: &str, feature: Option<&str>, binary: Binary, filter: &str) -> NamedTests {
        let [package, filter] = [package, filter].map(str::to_owned);
        NamedTests { package, feature: feature.map(str::to_owned), binary, filter }
    }

    #[test]
    fn tests_are_named_by_package_binary_and_filter() -> Result<()> {
        let sqlite = tests(LEDGER, None, Binary::Named("sqlite".to_owned()), "together::");
        assert_eq!(NamedTests::parse("motorpool-ledger sqlite together::")?, sqlite);
        assert!(sqlite.build_quickly());
        let dynamodb = tests(LEDGER, Some("dynamodb"), Binary::Library, "inv_02");
        assert_eq!(NamedTests::parse("motorpool-ledger/dynamodb lib inv_02")?, dynamodb);
        assert!(!dynamodb.build_quickly());
        let of_a_program = tests("motorpool", None, Binary::Program, "refuse_20");
        assert_eq!(NamedTests::parse("motorpool bin refuse_20")?, of_a_program);
        for not in ["", "a", "a b", "a b ", "a  b", "a b c d", "/f b c", "a/ b c", " b c"] {
            assert!(NamedTests::parse(not).is_err(), "{not:?}");
        }
        Ok(())
    }

    #[test]
    fn a_test_says_by_its_name_what_it_proves() {
        let proved = |test| proves(test).into_iter().collect::<Vec<_>>();
        assert_eq!(
            proved("a::inv_02_17_of_20_one_wins"),
            [Broken::Invariant(2), Broken::Invariant(17)],
            "a number after a word counts something else"
        );
        assert_eq!(proved("inv_07_fault_15_again"), [Broken::Invariant(7), Broken::Fault(15)]);
        assert_eq!(
            proved("a::refuse_17_refuse_21_a_job_of_2"),
            [Broken::Refusal(17), Broken::Refusal(21)],
            "each as it is said"
        );
        assert_eq!(proved("fault_26::many_at_once"), []);
        assert_eq!(proved("of_fault_26"), []);
    }

    #[test]
    fn what_counts_is_a_failed_test_that_proves_what_is_broken() {
        let (passed, failed) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8));
        let ran = "\nrunning 2 tests\ntest a::inv_02_one ... ok\n";
        let finds = "\nrunning 2 tests\ntest b::other ... FAILED\ntest a::inv_02_one ... FAILED\n";
        let breaks = BTreeSet::from([INV_2, FAULT_26]);
        let judged = |said: &str, ended| judge(said, ended, &breaks).map_err(|error| error.to_string());
        assert_eq!(judged(finds, failed).as_deref(), Ok("a::inv_02_one fails, and 1 more"));
        for (said, ended, why) in [
            (ran, passed, "NOT found"),
            (ran, failed, "none of them failed"),
            ("", failed, "none of them failed"),
            ("\nrunning 0 tests\n\ntest result: ok.\n", passed, "no such tests"),
            ("\nrunning 1 test\ntest a::inv_17_one ... FAILED\n", failed, "break invariant 2 or fault 26"),
        ] {
            assert!(judged(said, ended).is_err_and(|error| error.contains(why)), "{said}");
        }
    }

    #[test]
    fn built_tests_run_in_their_packages_folder() -> Result<()> {
        let line = r#"{"manifest_path":"/t/shared/ledger/Cargo.toml","target":{"name":"sqlite"},"executable":"/t/debug/deps/sqlite-1"}"#;
        let Program { path, folder } = program(line, "sqlite").context("no program")?;
        assert_eq!((path, folder), ("/t/debug/deps/sqlite-1".into(), "/t/shared/ledger".into()));
        assert!(program(line, "contract").is_none());
        Ok(())
    }
}

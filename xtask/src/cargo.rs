//! The cargo that started us, and what it says about the workspace. It starts programs; which ones is for others to say.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Cargo {
    program: OsString,
    root: PathBuf,
    target: PathBuf,
    libraries: Vec<PathBuf>,
    with_programs: BTreeSet<String>,
}

impl Cargo {
    /// Asks cargo about the workspace of the current directory.
    pub(crate) fn find() -> Result<Self> {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut metadata = clean(&program);
        metadata.args(["metadata", "--no-deps", "--format-version", "1"]);
        let answer: Value = serde_json::from_slice(&output(&mut metadata)?)
            .context("cannot read the answer of cargo metadata")?;
        let path = |name: &str| {
            let found = answer.get(name).and_then(Value::as_str);
            found.map(PathBuf::from).with_context(|| format!("cargo metadata names no {name}"))
        };
        Ok(Self {
            program,
            root: path("workspace_root")?,
            target: path("target_directory")?,
            libraries: libraries(&answer),
            with_programs: with_programs(&answer),
        })
    }

    /// `CARGO_TARGET_DIR`, or what the configuration says, or the default.
    pub(crate) fn target_directory(&self) -> &Path {
        &self.target
    }

    /// The workspace's folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The root source file of each library in the workspace.
    pub(crate) fn libraries(&self) -> &[PathBuf] {
        &self.libraries
    }

    /// Whether a package of the workspace has a program: with the tests in its `tests/`, cargo builds that, too.
    pub(crate) fn makes_programs(&self, package: &str) -> bool {
        self.with_programs.contains(package)
    }

    pub(crate) fn command<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = self.tool(&self.program);
        command.args(arguments);
        command
    }

    /// Any other program, started in the workspace's root with the same environment.
    pub(crate) fn tool(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = clean(program);
        command.current_dir(&self.root);
        command
    }
}

/// Runs the command, its output going where ours goes.
pub(crate) fn must_succeed(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` ended with {status}");
    Ok(())
}

/// Runs the command and returns what it wrote to stdout; its stderr goes where ours goes.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let shown = show(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` ended with {}", output.status);
    Ok(output.stdout)
}

/// The command for people to read and repeat; a full path is cut to the program's name.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()];
    words.extend(command.get_args().map(OsStr::to_string_lossy));
    words.join(" ")
}

/// `cargo run` tells us about our own package in the environment. Handed on, that would reach the build scripts that
/// watch these variables (ring's does), and they would run again at every change between `cargo xtask` and `cargo`.
fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME"
        });
        if is_ours {
            command.env_remove(name);
        }
    }
    command
}

fn libraries(metadata: &Value) -> Vec<PathBuf> {
    list(metadata, "packages")
        .iter()
        .flat_map(|package| list(package, "targets"))
        .filter(|target| is(target, "lib"))
        .filter_map(|target| Some(PathBuf::from(target.get("src_path")?.as_str()?)))
        .collect()
}

/// The names of the packages that have a program.
fn with_programs(metadata: &Value) -> BTreeSet<String> {
    list(metadata, "packages")
        .iter()
        .filter(|package| list(package, "targets").iter().any(|target| is(target, "bin")))
        .filter_map(|package| Some(package.get("name")?.as_str()?.to_owned()))
        .collect()
}

fn is(target: &Value, kind: &str) -> bool {
    list(target, "kind").iter().any(|is| is == kind)
}

fn list(value: &Value, name: &str) -> Vec<Value> {
    value.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

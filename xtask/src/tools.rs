//! The cargo tools that the tests need: one on `PATH` that is new enough, else our own, built once into the target
//! directory. It never changes what the user has installed.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;

use anyhow::{Context, Result, bail};

use crate::cargo::{Cargo, must_succeed};
use crate::clock::Stopwatch;

#[derive(Debug)]
pub(crate) struct Tool {
    name: &'static str,
    /// The oldest version on `PATH` that will do.
    least: [u64; 3],
    /// The version that we build if there is none.
    build: &'static str,
    options: &'static [&'static str],
}

/// The configuration file's format changes between minor versions.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", least: [0, 20, 0], build: "0.20.2", options: &[] };

/// Without the part that replaces itself by a downloaded binary.
pub(crate) const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    least: [0, 9, 100],
    build: "0.9.151",
    options: &["--no-default-features", "--features", "default-no-update"],
};

impl Tool {
    /// The program to start, built first if need be.
    pub(crate) fn ensure(&self, cargo: &Cargo) -> Result<OsString> {
        let tools = cargo.target_directory().join("tools");
        let ours = tools.join("bin").join(self.name).into_os_string();
        for program in [OsString::from(self.name), ours.clone()] {
            if self.is_usable(cargo, &program)? {
                return Ok(program);
            }
        }

        let watch = Stopwatch::start();
        eprintln!("    {} is missing or too old: building {} {}, once", self.name, self.name, self.build);
        let build = tools.join(format!("build-{}", self.name));
        let mut install =
            cargo.command(["install", self.name, "--locked", "--force", "--version", self.build]);
        install.args(self.options);
        install.arg("--root").arg(&tools).arg("--target-dir").arg(&build);
        // A tool that runs for seconds is not worth minutes of optimising.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        install.env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        install.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        must_succeed(&mut install)
            .with_context(|| format!("cannot install {}; one on PATH would be used too", self.name))?;
        fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
        if !self.is_usable(cargo, &ours)? {
            bail!("{} was built, but does not say that it is at least {:?}", self.name, self.least);
        }
        eprintln!("    {} {} is built: {watch}", self.name, self.build);
        Ok(ours)
    }

    fn is_usable(&self, cargo: &Cargo, program: &OsString) -> Result<bool> {
        match cargo.tool(program).arg("--version").output() {
            Ok(output) => {
                Ok(version(&String::from_utf8_lossy(&output.stdout)).is_some_and(|found| found >= self.least))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("cannot start {} to ask its version", self.name))
            }
        }
    }
}

/// The version in `cargo-deny 0.20.2` or `cargo-nextest 0.9.143 (60fa45f63 2026-08-04)`.
fn version(said: &str) -> Option<[u64; 3]> {
    let numbers = said.split_whitespace().nth(1)?.split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_the_tools_say() {
        assert_eq!(version("cargo-deny 0.20.2\n"), Some([0, 20, 2]));
        assert_eq!(
            version("cargo-nextest 0.9.143 (60fa45f63 2026-08-04)\nrelease: 0.9.143"),
            Some([0, 9, 143])
        );
        assert_eq!(version("cargo-nextest 0.9.144-rc.1"), Some([0, 9, 144]));
        for nothing in ["", "cargo-deny", "cargo-deny new", "cargo-deny 1.2"] {
            assert_eq!(version(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn what_we_build_is_new_enough() {
        for tool in [DENY, NEXTEST] {
            let built = version(&format!("{} {}", tool.name, tool.build));
            assert!(built.is_some_and(|built| built >= tool.least), "{tool:?}");
        }
    }
}

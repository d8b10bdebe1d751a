//! GitHub's own examples of what its webhooks send, for tests: installed once into the target directory. What is made of them, it does not know.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::cargo::Cargo;
use crate::npm::Packages;

/// Where the tests look for them.
pub(crate) const EXAMPLES: &str = "MOTORPOOL_WEBHOOK_EXAMPLES";

const PACKAGE: &str = "@octokit/webhooks-examples";
const VERSION: &str = "7.6.1";

/// Installs them if need be. The file has all examples of github.com.
pub(crate) fn ensure(cargo: &Cargo) -> Result<PathBuf> {
    let home = cargo.target_directory().join("tools").join(format!("webhook-examples-{VERSION}"));
    let packages = Packages {
        name: "GitHub's examples of webhooks",
        packages: &[format!("{PACKAGE}@{VERSION}")],
        needed_by: "the tests over them",
    };
    packages.install(cargo, &home, |_| Ok(()))?;
    let file = home.join("node_modules").join(PACKAGE).join("api.github.com/index.json");
    let found = file.metadata().with_context(|| format!("{} is not there", file.display()))?;
    ensure!(found.is_file(), "{} is no file", file.display());
    Ok(file)
}

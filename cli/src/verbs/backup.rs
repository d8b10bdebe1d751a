//! `motorpool backup`: a copy of the embedded ledger, made beside the `serve` that owns it. It asks no server.

use std::path::Path;

use serde_json::json;

use crate::args::BackupArgs;
use crate::errors::{Failure, chain};
use crate::output::Report;

pub(crate) fn run(args: BackupArgs) -> Result<Report, Failure> {
    let BackupArgs { file, data_dir } = args;
    let ledger = data_dir.join("ledger.db");
    motorpool_ledger::sqlite::backup(&ledger, &file).map_err(|error| {
        Failure::failed(
            chain(&error),
            "name the server's data directory by --data-dir, and a file that is not there yet",
        )
    })?;
    Ok(Report::new(json!({"ledger": ledger, "backup": file}), in_words(&ledger, &file)))
}

fn in_words(ledger: &Path, file: &Path) -> String {
    format!(
        "copied {} to {}, as it was at one moment\nto start from it, make it ledger.db in an empty data directory, and put admin-token, server-secret and site of the old one beside it\n",
        ledger.display(),
        file.display()
    )
}

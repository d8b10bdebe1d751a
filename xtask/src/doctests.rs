//! Whether the libraries have any doc tests: cargo links a program for each library to find out, and most have none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// True if a doc comment in one of the libraries opens a code block. It may be a block that rustdoc does not run: then
/// the step finds nothing to do.
pub(crate) fn exist(libraries: &[PathBuf]) -> Result<bool> {
    for root in libraries {
        if root.parent().map(directory_has_one).transpose()?.unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn directory_has_one(directory: &Path) -> Result<bool> {
    let reading = || format!("cannot read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let path = entry.path();
        let found = if entry.file_type().with_context(reading)?.is_dir() {
            directory_has_one(&path)?
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source =
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            has_one(&source)
        } else {
            false
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_one(source: &str) -> bool {
    source.lines().map(str::trim_start).any(|line| {
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        text.is_some_and(|text| text.trim_start().starts_with("```"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_code_block_in_a_doc_comment_counts() {
        assert!(has_one("//! Text.\n//!\n//! ```\n//! let a = 1;\n//! ```\n"));
        assert!(has_one("mod a {\n    /// ```rust\n    /// ```\n    fn a() {}\n}\n"));
        assert!(!has_one("// ```\nlet a = \"```\";\n/// `code`\n"));
    }
}

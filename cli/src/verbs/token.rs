//! `token`: a new team token, and what the pools file must know of it. The server is not asked, and keeps only the hash.

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::output::Report;

pub(crate) fn run() -> Report {
    let token = format!("mp_team_{}", hex(&rand::random::<[u8; 32]>()));
    let sha256 = hex(&Sha256::digest(token.as_bytes()));
    let words = format!(
        "token, for the team; it is shown only now:\n\n    {token}\n\n\
         for the pools file, under the team's name; then restart `motorpool serve`:\n\n    \
         [teams.NAME]\n    token_sha256 = [\"{sha256}\"]"
    );
    Report::new(json!({"token": token, "token_sha256": sha256}), words)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools_file;

    #[test]
    fn the_printed_lines_are_a_pools_file() {
        let report = run();
        let lines =
            report.words.lines().skip_while(|line| !line.contains("[teams.")).collect::<Vec<_>>().join("\n");
        let file =
            pools_file::parse(&lines.replace("NAME", "web"), "pools.toml", std::path::Path::new("")).unwrap();
        let sha256: [u8; 32] = Sha256::digest(report.json["token"].as_str().unwrap().as_bytes()).into();
        assert_eq!(file.teams.values().flatten().collect::<Vec<_>>(), [&sha256]);
    }

    #[test]
    fn no_token_comes_twice() {
        assert_ne!(run().json, run().json);
    }
}

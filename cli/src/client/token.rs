//! Which token a verb uses, and where it came from. Tokens are read from files and the environment, never from arguments.

use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::args::{ConnectArgs, DATA_DIR};
use crate::errors::Failure;

pub(crate) const ADMIN_TOKEN_FILE: &str = "admin-token";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    Environment(&'static str),
    None,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "${name}"),
            Self::None => f.write_str("nowhere"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Token {
    /// None: the server is asked without one, and says what it thinks of that.
    pub(super) secret: Option<SecretString>,
    pub(super) source: Source,
}

/// The data directory that a verb may look into: the one that was named; else `serve`'s default, if the server is on this host.
/// The admin token of a server here must not reach a server elsewhere because of the directory somebody stands in.
pub(crate) fn data_dir(args: &ConnectArgs, server_is_here: bool) -> Option<PathBuf> {
    args.data_dir.clone().or_else(|| server_is_here.then(|| PathBuf::from(DATA_DIR)))
}

pub(super) fn find(
    args: &ConnectArgs,
    server_is_here: bool,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Token, Failure> {
    if let Some(path) = &args.token_file {
        return from_file(path)
            .map(|secret| Token { secret: Some(secret), source: Source::File(path.clone()) });
    }
    for name in ["MOTORPOOL_TOKEN", "MOTORPOOL_ADMIN_TOKEN"] {
        if let Some(text) = environment(name).filter(|text| !text.trim().is_empty()) {
            let source = Source::Environment(name);
            return Ok(Token { secret: Some(check(&text, &source)?), source });
        }
    }
    if let Some(dir) = data_dir(args, server_is_here) {
        let path = dir.join(ADMIN_TOKEN_FILE);
        match from_file(&path) {
            Ok(secret) => return Ok(Token { secret: Some(secret), source: Source::File(path) }),
            Err(failure) if args.data_dir.is_some() => return Err(failure),
            Err(_) => {}
        }
    }
    Ok(Token { secret: None, source: Source::None })
}

fn from_file(path: &Path) -> Result<SecretString, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(
            format!("cannot read a token from {}: {error}", path.display()),
            "name a file that holds a token, or set $MOTORPOOL_TOKEN",
        )
    })?;
    check(&text, &Source::File(path.to_owned()))
}

/// A token is one word. What else is in its place is not shown: it may be half a secret.
fn check(text: &str, source: &Source) -> Result<SecretString, Failure> {
    let secret = SecretString::from(text.trim());
    let word = secret.expose_secret();
    if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(
            format!("{source} holds no token"),
            "a token is one word, such as `motorpool token` makes",
        ));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(token_file: Option<PathBuf>, data_dir: Option<PathBuf>) -> ConnectArgs {
        ConnectArgs { server: None, token_file, ca_file: None, data_dir, insecure_http: false }
    }

    fn found(args: &ConnectArgs, environment: &[(&str, &str)]) -> Result<(Option<String>, Source), Failure> {
        let look = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        find(args, true, look)
            .map(|token| (token.secret.map(|secret| secret.expose_secret().to_owned()), token.source))
    }

    #[test]
    fn the_nearest_token_wins() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mine");
        std::fs::write(&file, "from-file\n").unwrap();
        std::fs::write(dir.path().join(ADMIN_TOKEN_FILE), "from-data-dir\n").unwrap();
        let both = [("MOTORPOOL_TOKEN", "team"), ("MOTORPOOL_ADMIN_TOKEN", "admin")];

        let all = args(Some(file.clone()), Some(dir.path().to_owned()));
        assert_eq!(found(&all, &both).unwrap(), (Some("from-file".to_owned()), Source::File(file)));
        let some = args(None, Some(dir.path().to_owned()));
        assert_eq!(found(&some, &both).unwrap().0.as_deref(), Some("team"));
        assert_eq!(found(&some, &both[1..]).unwrap().0.as_deref(), Some("admin"));
        assert_eq!(found(&some, &[("MOTORPOOL_TOKEN", " ")]).unwrap().0.as_deref(), Some("from-data-dir"));
    }

    #[test]
    fn a_named_file_that_holds_no_token_is_a_mistake() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        assert!(found(&args(Some(gone), None), &[]).is_err());
        assert!(found(&args(None, Some(dir.path().to_owned())), &[]).is_err());
        let file = dir.path().join("two-words");
        std::fs::write(&file, "hush secret").unwrap();
        let failure = found(&args(Some(file), None), &[]).unwrap_err();
        assert!(!failure.message.contains("hush"), "{failure:?}");
    }

    #[test]
    fn the_default_directory_is_for_a_server_on_this_host() {
        assert_eq!(data_dir(&args(None, None), true), Some(PathBuf::from(DATA_DIR)));
        assert_eq!(data_dir(&args(None, None), false), None);
    }
}

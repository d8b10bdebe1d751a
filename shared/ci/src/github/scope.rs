//! Where runners register with GitHub: an organisation, a repository, an enterprise; and the paths that this makes.

use std::fmt;

use crate::error::CallError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Organisation(String),
    Repository { owner: String, name: String },
    Enterprise(String),
}

impl Scope {
    pub(crate) fn parse(text: &str) -> Result<Self, CallError> {
        let plain = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        match text.split('/').collect::<Vec<_>>().as_slice() {
            [org] if plain(org) => Ok(Self::Organisation((*org).to_owned())),
            ["enterprises", name] if plain(name) => Ok(Self::Enterprise((*name).to_owned())),
            [owner, name] if plain(owner) && plain(name) => {
                Ok(Self::Repository { owner: (*owner).to_owned(), name: (*name).to_owned() })
            }
            _ => Err(CallError::Refused(format!(
                "{text:?} is no scope of GitHub's: write \"org\", \"owner/repository\" or \"enterprises/name\""
            ))),
        }
    }

    pub(crate) fn runners(&self) -> String {
        format!("{}/actions/runners", self.path())
    }

    /// Where an App's installation is asked for. Enterprises take no App for their runners.
    pub(crate) fn installation(&self) -> Option<String> {
        match self {
            Self::Organisation(_) | Self::Repository { .. } => Some(format!("{}/installation", self.path())),
            Self::Enterprise(_) => None,
        }
    }

    /// What the credentials need to be allowed.
    pub(crate) fn permission(&self) -> &'static str {
        match self {
            Self::Organisation(_) => {
                "the App needs the organisation permission \"Self-hosted runners: Read and write\" \
                 (a token: the scope admin:org)"
            }
            Self::Repository { .. } => {
                "the App needs the repository permission \"Administration: Read and write\" (a token: the scope repo)"
            }
            Self::Enterprise(_) => "the token needs the scope manage_runners:enterprise",
        }
    }

    pub(crate) fn path(&self) -> String {
        match self {
            Self::Organisation(org) => format!("orgs/{org}"),
            Self::Repository { owner, name } => format!("repos/{owner}/{name}"),
            Self::Enterprise(name) => format!("enterprises/{name}"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Organisation(org) => write!(f, "the organisation {org}"),
            Self::Repository { owner, name } => write!(f, "the repository {owner}/{name}"),
            Self::Enterprise(name) => write!(f, "the enterprise {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_makes_its_paths() {
        for (text, runners, installation) in [
            ("my-org", "orgs/my-org/actions/runners", Some("orgs/my-org/installation")),
            ("me/my.repo", "repos/me/my.repo/actions/runners", Some("repos/me/my.repo/installation")),
            ("enterprises/big", "enterprises/big/actions/runners", None),
        ] {
            let scope = Scope::parse(text).unwrap();
            assert_eq!(scope.runners(), runners);
            assert_eq!(scope.installation().as_deref(), installation);
        }
    }

    #[test]
    fn refuse_13_a_scope_reaches_no_other_path() {
        for bad in ["", "a/b/c", "../x", "a/..", "a b", "a?x", "a#x", "a%2fb", "/a", "a/", "enterprises/"] {
            assert!(Scope::parse(bad).is_err(), "{bad:?}");
        }
    }
}

//! Where runners register with GitLab: the instance, a group, a project; and the paths that this makes.

use crate::error::CallError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Instance,
    Group(u64),
    Project(u64),
}

impl Scope {
    pub(crate) fn parse(text: &str) -> Result<Self, CallError> {
        let number = |text: &str| text.parse::<u64>().ok();
        let scope = match text.split_once('/') {
            None => (text == "instance").then_some(Self::Instance),
            Some(("groups", id)) => number(id).map(Self::Group),
            Some(("projects", id)) => number(id).map(Self::Project),
            Some(_) => None,
        };
        scope.ok_or_else(|| {
            let rule = "write \"groups/ID\", \"projects/ID\" or \"instance\", with the number as ID";
            CallError::Refused(format!("{text:?} is no scope of GitLab's: {rule}"))
        })
    }

    pub(crate) fn runner_type(self) -> &'static str {
        match self {
            Self::Instance => "instance_type",
            Self::Group(_) => "group_type",
            Self::Project(_) => "project_type",
        }
    }

    pub(crate) fn list(self) -> String {
        match self {
            Self::Instance => "api/v4/runners/all".to_owned(),
            Self::Group(id) => format!("api/v4/groups/{id}/runners"),
            Self::Project(id) => format!("api/v4/projects/{id}/runners"),
        }
    }

    pub(crate) fn words(self) -> String {
        match self {
            Self::Instance => "the GitLab instance".to_owned(),
            Self::Group(id) => format!("GitLab's group {id}"),
            Self::Project(id) => format!("GitLab's project {id}"),
        }
    }

    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::Instance => "an administrator",
            Self::Group(_) => "an Owner of the group",
            Self::Project(_) => "a Maintainer of the project",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_a_scope_reaches_no_other_path() {
        for (text, expected) in [
            ("instance", Some(Scope::Instance)),
            ("groups/7", Some(Scope::Group(7))),
            ("projects/8", Some(Scope::Project(8))),
            ("groups/my-group", None),
            ("groups/7/../8", None),
            ("users/7", None),
            ("", None),
        ] {
            assert_eq!(Scope::parse(text).ok(), expected, "{text:?}");
        }
    }
}

//! Where Jenkins has a node and a job. Names are encoded, so that none reaches another path.

use crate::error::CallError;
use crate::segment::encoded;

pub(crate) fn node(name: &str) -> Result<String, CallError> {
    let name = encoded(name).ok_or_else(|| {
        CallError::Refused(format!("{name:?} is no node of Jenkins': no node has such a name"))
    })?;
    Ok(format!("computer/{name}"))
}

/// Of a job by its full name, such as `folder/job`. A multibranch job's name holds the branch encoded (`job/feature%2Fx`), and is encoded once
/// more.
pub(crate) fn job(full_name: &str) -> Result<String, CallError> {
    let parts: Option<Vec<String>> =
        full_name.split('/').map(|name| encoded(name).map(|name| format!("job/{name}"))).collect();
    parts.map(|parts| parts.join("/")).ok_or_else(|| {
        let rule = "write its full name, such as folder/job, as JOB_NAME has it";
        CallError::Refused(format!("{full_name:?} is no job of Jenkins': {rule}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_a_name_reaches_no_other_path() {
        for (name, expected) in [
            ("app", Some("job/app")),
            ("folder/app", Some("job/folder/job/app")),
            ("app/feature%2Fx", Some("job/app/job/feature%252Fx")),
            ("my app?x#y", Some("job/my%20app%3Fx%23y")),
            ("", None),
            ("a//b", None),
            ("../../manage", None),
            ("a/..", None),
            ("a\\b", None),
            ("a\nb", None),
        ] {
            assert_eq!(job(name).ok().as_deref(), expected, "{name:?}");
        }
        assert_eq!(node("(built-in)").ok().as_deref(), Some("computer/%28built-in%29"));
        for bad in ["", ".", "..", "a/b"] {
            assert!(node(bad).is_err(), "{bad:?}");
        }
    }
}

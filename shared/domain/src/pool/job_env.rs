//! `job_env`: the variables that a pool gives to its commands beside those of an allow-list. None is the control plane's own.

use super::RuleError;
use std::collections::BTreeMap;

/// What a variable's name looks like.
pub const VARIABLE_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]{0,99}$";
pub const VALUE_PATTERN: &str = r"^[^\x00]*$";
/// So many, each so long, are sent with every task.
pub const MOST_VARIABLES: usize = 50;
pub const LONGEST_VARIABLE: usize = 4_000;

const LONGEST_NAME: usize = 100;
const OWN_PREFIX: &str = "MOTORPOOL_";

pub(super) fn check(variables: &BTreeMap<String, String>) -> Result<(), RuleError> {
    let wrong = |problem: String| Err(RuleError { field: "job_env", problem });
    if variables.len() > MOST_VARIABLES {
        return wrong(format!("has {} variables, and may have {MOST_VARIABLES}", variables.len()));
    }
    for (name, value) in variables {
        if !is_name(name) {
            return wrong(format!(
                "{name:?} cannot be the name of a variable: letters, digits and _, the first no digit"
            ));
        }
        if name.starts_with(OWN_PREFIX) {
            return wrong(format!(
                "{name} is the control plane's own: variables named {OWN_PREFIX}… are not for a pool to set"
            ));
        }
        if value.chars().count() > LONGEST_VARIABLE || value.contains('\0') {
            return wrong(format!(
                "the value of {name} must have at most {LONGEST_VARIABLE} characters, and none of them NUL"
            ));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= LONGEST_NAME
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_13_refuse_21_names_are_names_and_none_is_ours() {
        let one = |name: &str, value: &str| check(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        for name in ["A", "_a9", "http_proxy", "JAVA_HOME", "XMOTORPOOL_X", &"a".repeat(100)] {
            assert_eq!(one(name, "any value, even\nof two lines"), Ok(()), "{name}");
        }
        for name in [
            "",
            "9a",
            "a b",
            "a=b",
            "a\nb",
            "ä",
            "a-b",
            "a\0",
            "MOTORPOOL_SERVER",
            "MOTORPOOL_",
            &"a".repeat(101),
        ] {
            assert_eq!(one(name, "x").unwrap_err().field, "job_env", "{name:?}");
        }
        assert!(one("A", &"x".repeat(LONGEST_VARIABLE)).is_ok());
        assert!(one("A", &"x".repeat(LONGEST_VARIABLE + 1)).is_err() && one("A", "\0").is_err());
        let many = |count: usize| check(&(0..count).map(|n| (format!("V{n}"), String::new())).collect());
        assert!(many(MOST_VARIABLES).is_ok() && many(MOST_VARIABLES + 1).is_err());
    }
}

//! Hardware: what a runner offers, what a claim asks for, and whether the one fits the other.

use serde::{Deserialize, Serialize};

/// A resource class is a spec by name: `large = { cpu = 4, memory_mb = 8192 }`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub cpu: u32,
    pub memory_mb: u64,
}

/// How the provider sells a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Usage {
    Spot,
    OnDemand,
}

impl Usage {
    pub fn name(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

/// What one runner is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub instance_type: String,
    pub usage: Usage,
    pub spec: Spec,
}

/// What an instance type must look like. `_` is for the backends' own names, such as `bare_metal`.
pub const INSTANCE_TYPE_RULE: &str =
    "must be 1 to 64 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit";

/// The same as a regular expression, for the API's document.
pub const INSTANCE_TYPE_PATTERN: &str = "^[a-z0-9][a-z0-9._-]{0,63}$";

pub fn is_instance_type(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b))
}

/// What a claim asks of each of its runners. What it leaves open, any runner fits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Want {
    pub usage: Option<Usage>,
    pub instance_types: Option<TypeGlobs>,
    pub spec: Option<Spec>,
}

impl Want {
    /// Nothing, or the first reason why `offer` does not do, in plain words.
    pub fn misfit(&self, offer: &Offer) -> Option<String> {
        if let Some(usage) = self.usage
            && usage != offer.usage
        {
            return Some(format!("it is {}, {} is asked for", offer.usage.name(), usage.name()));
        }
        if let Some(globs) = &self.instance_types
            && !globs.matches(&offer.instance_type)
        {
            return Some(format!("its type {} does not match '{}'", offer.instance_type, globs.as_str()));
        }
        if let Some(spec) = self.spec
            && (offer.spec.cpu < spec.cpu || offer.spec.memory_mb < spec.memory_mb)
        {
            return Some(format!(
                "it has {} CPUs and {} MB, {} and {} are asked for",
                offer.spec.cpu, offer.spec.memory_mb, spec.cpu, spec.memory_mb
            ));
        }
        None
    }

    pub fn fits(&self, offer: &Offer) -> bool {
        self.misfit(offer).is_none()
    }

    /// What is asked for, to stand behind "a runner"; empty if any does.
    pub fn in_words(&self) -> String {
        let Self { usage, instance_types, spec } = self;
        let usage = usage.map(|usage| format!("is {}", usage.name()));
        let types = instance_types.as_ref().map(|globs| format!("has a type like '{}'", globs.as_str()));
        let spec = spec.map(|spec| format!("has {} CPUs and {} MB", spec.cpu, spec.memory_mb));
        let parts: Vec<String> = [usage, types, spec].into_iter().flatten().collect();
        if parts.is_empty() { String::new() } else { format!(" that {}", parts.join(" and ")) }
    }
}

/// Instance types by pattern, separated by spaces: `c* m6i.*`. `*` stands for any text, `?` for one character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TypeGlobs(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "instance types must be 1 to 20 patterns such as 'c* m6i.*', of a-z, 0-9, '.', '-', '_', '*' and '?'; '{0}' is not"
)]
pub struct GlobError(pub String);

impl TypeGlobs {
    /// What `parse` takes as a regular expression, for the API's document.
    pub const PATTERN: &'static str = "^ *[a-z0-9._*?-]{1,64}( +[a-z0-9._*?-]{1,64}){0,19} *$";

    pub fn parse(text: impl Into<String>) -> Result<Self, GlobError> {
        let text = text.into();
        let patterns: Vec<&str> = text.split_whitespace().collect();
        let good = |p: &&str| {
            p.len() <= 64
                && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_*?".contains(&b))
        };
        if let Some(bad) = patterns.iter().find(|p| !good(p)) {
            return Err(GlobError((*bad).to_owned()));
        }
        if patterns.is_empty() || patterns.len() > 20 {
            return Err(GlobError(text));
        }
        Ok(Self(patterns.join(" ")))
    }

    /// Of a pool that names none: machines for general work and for computing.
    pub fn general() -> Self {
        Self("c* m*".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, instance_type: &str) -> bool {
        self.0.split(' ').any(|pattern| glob(pattern.as_bytes(), instance_type.as_bytes()))
    }
}

impl TryFrom<String> for TypeGlobs {
    type Error = GlobError;
    fn try_from(text: String) -> Result<Self, GlobError> {
        Self::parse(text)
    }
}

impl From<TypeGlobs> for String {
    fn from(globs: TypeGlobs) -> String {
        globs.0
    }
}

/// Matches in time linear in pattern × text: on a mismatch only the last star is widened.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted == byte => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match star {
                Some((after_star, taken)) => {
                    star = Some((after_star, taken + 1));
                    p = after_star;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_none_or(|rest| rest.iter().all(|&b| b == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(instance_type: &str) -> Offer {
        Offer { instance_type: instance_type.to_owned(), usage: Usage::Spot, ..crate::samples::offer() }
    }

    #[test]
    fn globs_match_as_a_shell_would() {
        for (globs, text, expected) in [
            ("c* m*", "c6i.large", true),
            ("c* m*", "m5.xlarge", true),
            ("c* m*", "r5.large", false),
            ("c6i.?arge", "c6i.large", true),
            ("*.large", "c6i.large", true),
            ("*.large", "c6i.xlarge", false),
            ("c*i.*", "c6i.large", true),
            ("c6i.large", "c6i.large", true),
            ("c6i.large", "c6i.large2", false),
            ("*", "", true),
        ] {
            assert_eq!(TypeGlobs::parse(globs).unwrap().matches(text), expected, "{globs} on {text}");
        }
    }

    #[test]
    fn bad_globs_are_refused_by_name() {
        assert_eq!(TypeGlobs::parse("c* [m]").unwrap_err(), GlobError("[m]".to_owned()));
        assert!(TypeGlobs::parse("   ").is_err());
        assert!(TypeGlobs::parse("$(reboot)").is_err());
        assert!(TypeGlobs::parse("a ".repeat(21)).is_err());
    }

    #[test]
    fn a_want_leaves_open_what_it_does_not_name() {
        assert!(Want::default().fits(&offer("anything")));
        let want = Want { usage: Some(Usage::OnDemand), ..Want::default() };
        assert_eq!(want.misfit(&offer("x")), Some("it is spot, on-demand is asked for".to_owned()));
        let want = Want { spec: Some(Spec { cpu: 2, memory_mb: 4096 }), ..Want::default() };
        assert!(want.fits(&offer("x")));
        let want = Want { spec: Some(Spec { cpu: 2, memory_mb: 4097 }), ..Want::default() };
        assert!(!want.fits(&offer("x")));
    }

    #[test]
    fn a_want_is_told_in_words() {
        assert_eq!(Want::default().in_words(), "");
        let want = Want {
            usage: Some(Usage::Spot),
            instance_types: Some(TypeGlobs::parse("c* m*").unwrap()),
            spec: Some(Spec { cpu: 4, memory_mb: 8192 }),
        };
        assert_eq!(want.in_words(), " that is spot and has a type like 'c* m*' and has 4 CPUs and 8192 MB");
    }
}

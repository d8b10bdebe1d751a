//! One segment of a path, of what somebody calls something: encoded, so that no name reaches another path.

use std::fmt::Write;

/// Nothing of what would be no segment, or a step elsewhere.
pub(crate) fn encoded(name: &str) -> Option<String> {
    if name.is_empty()
        || name == "."
        || name == ".."
        || name.contains(['/', '\\'])
        || name.contains(char::is_control)
    {
        return None;
    }
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").ok()?;
        }
    }
    Some(text)
}

//! Text that somebody else wrote and people read: nothing in it may move a cursor, colour a terminal, or change the order of what is read.

/// `text` with a mark in place of each character that steers. A C0 control and DEL have pictures of their own (`␛`, `␡`); a C1 control and
/// a bidi control become `�`.
pub fn visible(text: &str) -> String {
    text.chars().map(|character| mark(character).unwrap_or(character)).collect()
}

/// Whether `character` steers what shows it: the controls C0, DEL and C1, and the bidi embeddings, overrides and isolates.
pub fn steers(character: char) -> bool {
    mark(character).is_some()
}

/// What a text that steers nothing fits, as the API's document says it.
pub const UNSTEERED_PATTERN: &str = r"^[^\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]*$";

fn mark(character: char) -> Option<char> {
    const PICTURES: u32 = 0x2400;
    match character {
        '\u{0}'..='\u{1f}' => char::from_u32(PICTURES + u32::from(character)),
        '\u{7f}' => Some('␡'),
        '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(char::REPLACEMENT_CHARACTER)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuse_25_what_steers_becomes_a_mark_and_all_else_stays() {
        for (text, expected) in [
            ("", ""),
            ("it ended with exit code 3: a | b", "it ended with exit code 3: a | b"),
            ("Zürich – 東京 – 🚗 – \u{200d}", "Zürich – 東京 – 🚗 – \u{200d}"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "␛[2J␛]0;title␇"),
            ("a\0b\tc\r\nd", "a␀b␉c␍␊d"),
            ("\u{1f}\u{20}\u{7e}\u{7f}", "␟ ~␡"),
            ("\u{80}\u{9b}31m\u{9f}\u{a0}", "��31m�\u{a0}"),
            ("\u{2029}\u{202a}\u{202e}\u{202f}", "\u{2029}��\u{202f}"),
            ("\u{2065}\u{2066}\u{2069}\u{206a}", "\u{2065}��\u{206a}"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }

    #[test]
    fn refuse_25_no_mark_steers() {
        for character in '\u{0}'..=char::MAX {
            let shown = visible(&character.to_string());
            assert_eq!(shown.chars().count(), 1, "{character:?}");
            assert!(!shown.chars().any(steers) && !shown.chars().any(char::is_control), "{character:?}");
            assert_eq!(shown.starts_with(character), !steers(character), "{character:?}");
        }
    }
}

//! Tables for people: columns without lines between them. On a terminal the last one is wrapped, so that what stands before
//! it can be copied; in a pipe nothing is.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use super::terminal;

pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    of_width(header, rows, terminal::stdout_width())
}

/// Names and values, one a line; those without a value are left out.
pub(crate) fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let rows = facts.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?]));
    of_width(&[], rows, terminal::stdout_width())
}

fn of_width(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>, width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    for row in rows {
        table.add_row(row);
    }
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    let last = table.column_count().saturating_sub(1);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if place < last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = [vec!["small".to_owned(), "2".to_owned()], vec!["a".to_owned(), "10".to_owned()]];
        assert_eq!(of_width(&["POOL", "IDLE"], rows, None), "POOL   IDLE\nsmall  2\na      10");
    }

    #[test]
    fn a_narrow_terminal_wraps_and_is_never_overrun() {
        let rows = [vec!["c-1".to_owned(), "it waits for a slot: all 100 are taken by others".repeat(3)]];
        let text = of_width(&["CLAIM", "WHY"], rows, Some(80));
        assert!(text.lines().count() > 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let rows = [vec!["c-6fk8vpqg811sppe4".to_owned(), "a long reason".to_owned()]];
        let text = of_width(&["CLAIM", "WHY"], rows, Some(30));
        assert!(text.contains("c-6fk8vpqg811sppe4"), "{text}");
    }
}

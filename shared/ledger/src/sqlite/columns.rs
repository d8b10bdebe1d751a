//! How the port's values stand in columns, and are read from them again.

use motorpool_domain::Timestamp;
use motorpool_domain::record::{Key, Marks, Path, Place, Version};
use rusqlite::types::Type;
use std::collections::BTreeMap;

/// The two columns of a row's key. One after the other they are the path's text, which is the order of what is due at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowKey {
    pub(super) pk: String,
    /// Empty for a key's own document.
    pub(super) sk: String,
}

impl From<&Path> for RowKey {
    fn from(path: &Path) -> Self {
        Self { pk: path.key.to_string(), sk: path.child.as_deref().map(child).unwrap_or_default() }
    }
}

/// The second column of a child: told from a key's own document even if its name is empty.
pub(super) fn child(name: &str) -> String {
    format!("/{name}")
}

/// The path whose columns begin at `column`.
pub(super) fn path(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Path> {
    let (pk, sk) = (row.get_ref(column)?.as_str()?, row.get_ref(column + 1)?.as_str()?);
    let key = Key::parse(pk).ok_or_else(|| unreadable(column, format!("'{pk}' is no key")))?;
    Ok(Path { key, child: sk.strip_prefix('/').map(str::to_owned) })
}

/// An unsigned number bit by bit: only ever compared for being equal, and all of its 64 bits come back.
pub(super) fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// The number whose bits are in `column`.
pub(super) fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// The version whose columns begin at `column`.
pub(super) fn version(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Version> {
    Ok(Version { state: row.get(column)?, epoch: number(row, column + 1)?, rev: number(row, column + 2)? })
}

/// An instant that sorts; whatever lies beyond the column's range is its end.
pub(super) fn instant(at: Timestamp) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

/// A limit of rows.
pub(super) fn limit(at_most: usize) -> i64 {
    i64::try_from(at_most).unwrap_or(i64::MAX)
}

/// A row's places as one text; nothing if it stands in no list.
pub(super) fn places_text(places: &[Place]) -> Option<String> {
    let pairs: Vec<[&str; 2]> = places.iter().map(|place| [&*place.list, &*place.sort]).collect();
    (!pairs.is_empty()).then(|| serde_json::json!(pairs).to_string())
}

pub(super) fn places(text: &str) -> rusqlite::Result<Vec<Place>> {
    let pairs: Vec<[String; 2]> = serde_json::from_str(text).map_err(|error| unreadable(0, error))?;
    Ok(pairs.into_iter().map(|[list, sort]| Place { list, sort }).collect())
}

/// The marks that `json_group_object` gathered in `column`.
pub(super) fn marks(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Marks> {
    match row.get_ref(column)?.as_str()? {
        "{}" => Ok(Marks::new()),
        text => {
            let bits: BTreeMap<String, i64> =
                serde_json::from_str(text).map_err(|error| unreadable(column, error))?;
            Ok(bits.into_iter().map(|(name, at)| (name, at.cast_unsigned())).collect())
        }
    }
}

fn unreadable(column: usize, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::record::Kind;

    #[test]
    fn a_child_without_a_name_is_not_the_key_s_own_document() {
        let key = Key::new(Kind::new("runner"), "r-1");
        let own = RowKey::from(&Path::from(key.clone()));
        let nameless = RowKey::from(&Path::child(key, ""));
        assert_ne!(own, nameless);
    }

    #[test]
    fn both_columns_are_the_path_s_text() {
        let key = Key::new(Kind::new("workflow"), "team#gh-1");
        for path in [Path::from(key.clone()), Path::child(key, "entry/1")] {
            let RowKey { pk, sk } = RowKey::from(&path);
            assert_eq!(format!("{pk}{sk}"), path.to_string());
        }
    }

    #[test]
    fn every_bit_of_a_number_comes_back() {
        for number in [0, 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(bits(number).cast_unsigned(), number);
        }
        assert_eq!(instant(Timestamp::from_millis(u64::MAX)), i64::MAX);
    }
}

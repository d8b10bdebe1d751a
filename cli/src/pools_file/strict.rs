//! Tables read key by key, so that every wrong key is named and not only the first. Which keys there are, the type itself says.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::problem::{Problems, in_words};

/// One key of the file with its value.
pub(super) struct Entry<'t, 'i> {
    pub(super) name: &'t str,
    pub(super) key: Key,
    /// Where the key stands, in bytes.
    pub(super) at: usize,
    value: &'t Spanned<DeValue<'i>>,
}

impl<'t, 'i> Entry<'t, 'i> {
    /// A key of this table, if it is one and has it.
    pub(super) fn child(&self, name: &str) -> Option<Entry<'t, 'i>> {
        entry_under(self.value.get_ref().as_table()?, name, &self.key)
    }

    /// The keys of this table; none, if it is no table.
    pub(super) fn names(&self) -> Vec<&'t str> {
        let table = self.value.get_ref().as_table();
        table.into_iter().flat_map(|table| table.keys()).map(|key| key.get_ref().as_ref()).collect()
    }

    /// The last of `keys` that this table has.
    pub(super) fn last_of(&self, keys: &[&'t str]) -> Option<&'t str> {
        let table = self.value.get_ref().as_table()?;
        keys.iter().rev().find(|key| table.contains_key(**key)).copied()
    }

    /// Where the last of `keys` that this table has stands; where the table itself does, if it has none.
    pub(super) fn line_of(&self, keys: &[&'t str]) -> usize {
        self.value
            .get_ref()
            .as_table()
            .and_then(|table| table.get_key_value(self.last_of(keys)?))
            .map_or(self.at, |(key, _)| key.span().start)
    }
}

/// A key's full path, as it would be written: `pools.small.max`.
#[derive(Clone)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn root() -> Self {
        Self(String::new())
    }

    pub(super) fn then(&self, name: &str) -> Self {
        let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        let name = if bare { name.to_owned() } else { format!("{name:?}") };
        if self.0.is_empty() { Self(name) } else { Self(format!("{}.{name}", self.0)) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key of the file itself.
pub(super) fn entry<'t, 'i>(root: &'t DeTable<'i>, name: &str) -> Option<Entry<'t, 'i>> {
    entry_under(root, name, &Key::root())
}

fn entry_under<'t, 'i>(table: &'t DeTable<'i>, name: &str, under: &Key) -> Option<Entry<'t, 'i>> {
    entries(table, under).into_iter().find(|entry| entry.name == name)
}

pub(super) fn entries<'t, 'i>(table: &'t DeTable<'i>, under: &Key) -> Vec<Entry<'t, 'i>> {
    table
        .iter()
        .map(|(key, value)| Entry {
            name: key.get_ref(),
            key: under.then(key.get_ref()),
            at: key.span().start,
            value,
        })
        .collect()
}

/// The entries of a table whose keys are names. `like` shows how one is written.
pub(super) fn named<'t, 'i>(
    entry: &Entry<'t, 'i>,
    like: &str,
    problems: &mut Problems<'_>,
) -> Vec<Entry<'t, 'i>> {
    match entry.value.get_ref().as_table() {
        Some(table) => entries(table, &entry.key),
        None => {
            problems.add(entry.at, &entry.key, &format!("must be a table, such as {like}"));
            Vec::new()
        }
    }
}

pub(super) fn value<T: DeserializeOwned>(entry: &Entry<'_, '_>, problems: &mut Problems<'_>) -> Option<T> {
    match T::deserialize(ValueDeserializer::from(entry.value.clone())) {
        Ok(value) => Some(value),
        Err(error) => {
            problems.add(entry.at, &entry.key, &in_words(&error));
            None
        }
    }
}

/// A table with the fields of `T`, or everything that is wrong with it.
pub(super) fn table<T: DeserializeOwned>(entry: &Entry<'_, '_>, problems: &mut Problems<'_>) -> Option<T> {
    table_without(entry, &[], problems)
}

/// As [`table`], but without the keys that somebody else reads.
pub(super) fn table_without<T: DeserializeOwned>(
    entry: &Entry<'_, '_>,
    apart: &[&str],
    problems: &mut Problems<'_>,
) -> Option<T> {
    let before = problems.count();
    let known = [fields_of::<T>(), apart].concat();
    for field in named(entry, "{ … }", problems) {
        if apart.contains(&field.name) {
            continue;
        }
        if known.contains(&field.name) {
            judge_alone::<T>(&field, problems);
        } else {
            problems.add(field.at, &field.key, &unknown_key(field.name, &known));
        }
    }
    if problems.count() > before {
        return None;
    }
    let mut whole = entry.value.clone();
    if let DeValue::Table(table) = whole.get_mut() {
        for key in apart {
            table.remove(*key);
        }
    }
    match T::deserialize(ValueDeserializer::from(whole)) {
        Ok(value) => Some(value),
        Err(error) => {
            match missing(&error) {
                Some(field) => problems.add(entry.at, &entry.key.then(field), "is missing"),
                None => problems.add(
                    error.span().map_or(entry.at, |span| span.start),
                    &entry.key,
                    &in_words(&error),
                ),
            }
            None
        }
    }
}

pub(super) fn unknown_key(name: &str, known: &[&str]) -> String {
    let typo = known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), *other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 4)
        .min()
        .map(|(_, other)| other);
    // A unit is easily left out.
    let longer =
        known.iter().find(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('_')));
    match longer.copied().or(typo) {
        Some(other) => format!("unknown key; did you mean {other}?"),
        None => format!("unknown key; known are {}", known.join(", ")),
    }
}

/// Whether this field's value would do, whatever the others are.
fn judge_alone<T: DeserializeOwned>(field: &Entry<'_, '_>, problems: &mut Problems<'_>) {
    let span = field.at..field.at;
    let alone = DeTable::from_iter([(Spanned::new(span.clone(), field.name.into()), field.value.clone())]);
    if let Err(error) = T::deserialize(ValueDeserializer::from(Spanned::new(span, DeValue::Table(alone))))
        && missing(&error).is_none()
    {
        problems.add(field.at, &field.key, &in_words(&error));
    }
}

/// The field that serde misses, if that is what its error says.
fn missing(error: &toml::de::Error) -> Option<&str> {
    error.message().strip_prefix("missing field `")?.strip_suffix('`')
}

/// A struct's keys, as its own deserialization asks for them: there is no second list to keep.
fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut fields: &'static [&'static str] = &[];
    // Deserialization always ends in an error here: only what it asks for matters.
    let _: Result<T, _> = T::deserialize(FieldNames(&mut fields));
    fields
}

/// A deserializer with no input: it takes down the names of the fields that a struct asks it for.
struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let _ = (name, visitor);
        *self.0 = fields;
        Err(serde::de::Error::custom("the fields are known now"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

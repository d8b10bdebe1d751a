//! Condition and update expressions, put together from names and values. Every name and value gets a placeholder, since many names are
//! reserved words, and a mark may be called anything. It knows no row.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::table::PK;

#[derive(Debug, Clone, Default)]
pub(super) struct Expression {
    names: Vec<String>,
    values: Vec<AttributeValue>,
    sets: Vec<String>,
    removes: Vec<String>,
    conditions: Vec<String>,
}

/// What an item's attributes become: set where there is a value, else removed.
pub(super) type Columns = Vec<(&'static str, Option<AttributeValue>)>;

/// An expression as requests take it. What is empty is left out: DynamoDB refuses an empty text or map.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) update: Option<String>,
    pub(super) condition: Option<String>,
    pub(super) names: Option<HashMap<String, String>>,
    pub(super) values: Option<HashMap<String, AttributeValue>>,
}

impl Expression {
    pub(super) fn columns(self, columns: Columns) -> Self {
        columns.into_iter().fold(self, |expression, (name, value)| match value {
            Some(value) => expression.set(name, value),
            None => expression.remove(name),
        })
    }

    pub(super) fn set(mut self, name: &str, value: AttributeValue) -> Self {
        let set = format!("{} = {}", self.name(name), self.value(value));
        self.sets.push(set);
        self
    }

    /// Adds to a number that is there.
    pub(super) fn raise(mut self, name: &str, by: AttributeValue) -> Self {
        let (name, by) = (self.name(name), self.value(by));
        self.sets.push(format!("{name} = {name} + {by}"));
        self
    }

    fn remove(mut self, name: &str) -> Self {
        let name = self.name(name);
        self.removes.push(name);
        self
    }

    /// Only if the attribute compares so. An attribute that is missing equals nothing, and is within no bound; but it differs (`<>`) from
    /// every value.
    pub(super) fn only_if(mut self, name: &str, comparison: &str, value: AttributeValue) -> Self {
        let condition = format!("{} {comparison} {}", self.name(name), self.value(value));
        self.conditions.push(condition);
        self
    }

    pub(super) fn only_if_absent(mut self) -> Self {
        let pk = self.name(PK);
        self.conditions.push(format!("attribute_not_exists({pk})"));
        self
    }

    pub(super) fn parts(self) -> Parts {
        let clause = |word: &str, parts: &[String]| match parts {
            [] => None,
            parts => Some(format!("{word} {}", parts.join(", "))),
        };
        let clauses = [clause("SET", &self.sets), clause("REMOVE", &self.removes)];
        let update = clauses.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Parts {
            update: (!update.is_empty()).then_some(update),
            condition: (!self.conditions.is_empty()).then(|| self.conditions.join(" AND ")),
            names: numbered('#', self.names),
            values: numbered(':', self.values),
        }
    }

    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#{number}")
    }

    fn value(&mut self, value: AttributeValue) -> String {
        self.values.push(value);
        format!(":{}", self.values.len() - 1)
    }
}

fn numbered<T>(sign: char, list: Vec<T>) -> Option<HashMap<String, T>> {
    let numbered = list.into_iter().enumerate().map(|(number, item)| (format!("{sign}{number}"), item));
    Some(numbered.collect()).filter(|map: &HashMap<_, _>| !map.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_placeholder_and_every_value_its_own() {
        let n = |number: &str| AttributeValue::N(number.to_owned());
        let columns = vec![("doc", Some(AttributeValue::S("{}".to_owned()))), ("due_at", None)];
        let Parts { update, condition, names, values } =
            Expression::default().columns(columns).set("rev", n("2")).only_if("rev", "=", n("1")).parts();
        assert_eq!(update.as_deref(), Some("SET #0 = :0, #2 = :1 REMOVE #1"));
        assert_eq!(condition.as_deref(), Some("#2 = :2"));
        assert_eq!(names.unwrap()["#2"], "rev");
        assert_eq!(values.unwrap()[":2"], n("1"));
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let Parts { update, condition, names, values } = Expression::default().parts();
        assert_eq!((update, condition, names, values), (None, None, None, None));
    }
}

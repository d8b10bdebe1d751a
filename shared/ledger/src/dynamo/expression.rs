//! Update and condition expressions, put together from names and values. Every name gets a placeholder, since many are
//! reserved words. It knows no record.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure as OnFailure, TransactWriteItem, Update,
};

use super::items::Item;
use crate::table::PK;

#[derive(Debug, Default)]
pub(super) struct Expression {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
    sets: Vec<String>,
    removes: Vec<String>,
    conditions: Vec<String>,
}

/// What an item's attributes become: set where there is a value, else removed.
pub(super) type Columns = Vec<(&'static str, Option<AttributeValue>)>;

impl Expression {
    pub(super) fn columns(self, columns: Columns) -> Self {
        columns.into_iter().fold(self, |expression, (name, value)| match value {
            Some(value) => expression.set(name, value),
            None => expression.remove(name),
        })
    }

    pub(super) fn set(mut self, name: &str, value: AttributeValue) -> Self {
        let set = format!("{} = {}", self.name(name), self.value("to", name, value));
        self.sets.push(set);
        self
    }

    /// Keeps what is there.
    pub(super) fn set_if_missing(mut self, name: &str, value: AttributeValue) -> Self {
        let (name, value) = (self.name(name), self.value("to", name, value));
        self.sets.push(format!("{name} = if_not_exists({name}, {value})"));
        self
    }

    pub(super) fn raise(mut self, name: &str, by: AttributeValue) -> Self {
        let (name, value) = (self.name(name), self.value("by", name, by));
        self.sets.push(format!("{name} = {name} + {value}"));
        self
    }

    pub(super) fn remove(mut self, name: &str) -> Self {
        let name = self.name(name);
        self.removes.push(name);
        self
    }

    /// Only if the attribute compares so. An attribute that is missing never does.
    pub(super) fn only_if(mut self, name: &str, comparison: &str, value: AttributeValue) -> Self {
        let condition = self.comparison(name, comparison, value);
        self.conditions.push(condition);
        self
    }

    pub(super) fn only_if_absent(self) -> Self {
        self.only_if_missing(PK)
    }

    /// Only if there is no such attribute, or no item at all.
    pub(super) fn only_if_missing(mut self, name: &str) -> Self {
        let name = self.name(name);
        self.conditions.push(format!("attribute_not_exists({name})"));
        self
    }

    /// Only if there is no such item, or all comparisons hold for the one that is there.
    pub(super) fn only_if_absent_or(mut self, comparisons: Vec<(&str, &str, AttributeValue)>) -> Self {
        let pk = self.name(PK);
        let hold: Vec<String> =
            comparisons.into_iter().map(|(name, how, value)| self.comparison(name, how, value)).collect();
        self.conditions.push(format!("(attribute_not_exists({pk}) OR ({}))", hold.join(" AND ")));
        self
    }

    /// As a part of a transaction. A failed condition shows the item as it is.
    pub(super) fn update(self, table: &str, key: Item) -> Result<TransactWriteItem, BuildError> {
        let update = Update::builder()
            .table_name(table)
            .set_key(Some(key))
            .update_expression(self.assignments())
            .set_condition_expression(self.condition())
            .set_expression_attribute_names(Some(self.names))
            .set_expression_attribute_values(some_of(self.values))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }

    /// As a part of a transaction: the whole item, on the condition.
    pub(super) fn put(self, table: &str, item: Item) -> Result<TransactWriteItem, BuildError> {
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(item))
            .set_condition_expression(self.condition())
            .set_expression_attribute_names(some_of(self.names))
            .set_expression_attribute_values(some_of(self.values))
            .return_values_on_condition_check_failure(OnFailure::AllOld);
        Ok(TransactWriteItem::builder().put(put.build()?).build())
    }

    /// As a request of its own.
    pub(super) fn apply_delete(self, request: DeleteItemFluentBuilder) -> DeleteItemFluentBuilder {
        request
            .set_condition_expression(self.condition())
            .set_expression_attribute_names(some_of(self.names))
            .set_expression_attribute_values(some_of(self.values))
    }

    /// As a request of its own.
    pub(super) fn apply(self, request: UpdateItemFluentBuilder) -> UpdateItemFluentBuilder {
        request
            .update_expression(self.assignments())
            .set_condition_expression(self.condition())
            .set_expression_attribute_names(Some(self.names))
            .set_expression_attribute_values(some_of(self.values))
    }

    fn assignments(&self) -> String {
        let part = |word: &str, parts: &[String]| match parts {
            [] => None,
            parts => Some(format!("{word} {}", parts.join(", "))),
        };
        let parts = [part("SET", &self.sets), part("REMOVE", &self.removes)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn condition(&self) -> Option<String> {
        (!self.conditions.is_empty()).then(|| self.conditions.join(" AND "))
    }

    fn comparison(&mut self, name: &str, comparison: &str, value: AttributeValue) -> String {
        let role = format!("if{}", self.values.len());
        format!("{} {comparison} {}", self.name(name), self.value(&role, name, value))
    }

    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#{name}");
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, role: &str, name: &str, value: AttributeValue) -> String {
        let placeholder = format!(":{role}_{name}");
        self.values.insert(placeholder.clone(), value);
        placeholder
    }
}

/// DynamoDB refuses an empty map.
fn some_of<T>(map: HashMap<String, T>) -> Option<HashMap<String, T>> {
    (!map.is_empty()).then_some(map)
}

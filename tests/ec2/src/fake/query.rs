//! EC2's query protocol: a form of dotted names. It reads; it judges nothing.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, String>);

/// One `Filter.N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) name: String,
    pub(super) values: Vec<String>,
}

impl Query {
    pub(super) fn parse(body: &[u8]) -> Self {
        Self(form_urlencoded::parse(body).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `NAME.1`, `NAME.2`, …
    pub fn list(&self, name: &str) -> Vec<&str> {
        (1..).map_while(|n| self.get(&format!("{name}.{n}"))).collect()
    }

    /// Every name with its value.
    pub fn pairs(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.get(name)?.parse().ok()
    }

    pub(super) fn filters(&self) -> Vec<Filter> {
        let nth = |n: usize| {
            let name = self.get(&format!("Filter.{n}.Name"))?.to_owned();
            let values = self.list(&format!("Filter.{n}.Value")).into_iter().map(str::to_owned).collect();
            Some(Filter { name, values })
        };
        (1..).map_while(nth).collect()
    }

    /// Key and value of each `PREFIX.Tag.N`.
    pub(super) fn tags(&self, prefix: &str) -> BTreeMap<String, String> {
        let nth = |n: usize| {
            let part = |what| self.get(&format!("{prefix}Tag.{n}.{what}")).map(str::to_owned);
            Some((part("Key")?, part("Value").unwrap_or_default()))
        };
        (1..).map_while(nth).collect()
    }

    /// The tags that a launch gives to resources of this kind.
    pub fn launch_tags(&self, resource: &str) -> BTreeMap<String, String> {
        (1..)
            .map_while(|n| {
                let kind = self.get(&format!("TagSpecification.{n}.ResourceType"))?;
                Some((kind, format!("TagSpecification.{n}.")))
            })
            .filter(|(kind, _)| *kind == resource)
            .flat_map(|(_, prefix)| self.tags(&prefix))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_names_are_read_as_lists_filters_and_tags() {
        let body = b"Action=X&InstanceId.1=i-1&InstanceId.2=i-2&Filter.1.Name=tag%3Aa%3Ab&Filter.1.Value.1=x%20y\
            &TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v";
        let query = Query::parse(body);
        assert_eq!(query.list("InstanceId"), ["i-1", "i-2"]);
        assert_eq!(query.filters(), [Filter { name: "tag:a:b".to_owned(), values: vec!["x y".to_owned()] }]);
        assert_eq!(query.launch_tags("volume"), BTreeMap::from([("k".to_owned(), "v".to_owned())]));
        assert!(query.launch_tags("instance").is_empty());
    }
}

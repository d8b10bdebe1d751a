//! `gitlab.openapi.yaml` says of each operation what GitLab's own description says of it: the same parameters, fields, types, choices
//! and statuses, but for those that are named here with their reason. It asks no server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use yaml_rust2::{Yaml, YamlLoader};

const OURS: &str = include_str!("../gitlab.openapi.yaml");

/// GitLab 19.5, doc/api/openapi/openapi_v3.yaml at 045bf8777ea893e770b49d420febaeb7bf89e24a.
/// Of a job, and of a runner in detail, what we read.
const THEIRS: &str = "
POST /api/v4/user/runners
    body runner_type: string, required, of instance_type group_type project_type
    body group_id: integer, required
    body project_id: integer, required
    body description: string
    body maintenance_note: string
    body paused: boolean
    body locked: boolean
    body access_level: string, of not_protected ref_protected
    body run_untagged: boolean
    body tag_list: array of string
    body maximum_timeout: integer
    body token_expires_at: string date-time
    body token_rotation_deadline: string date-time
    201 object
    201 id: string
    201 token: string
    201 token_expires_at: string
    400
    403
GET /api/v4/runners/all
    query scope: string, of specific shared instance_type group_type project_type active paused online offline never_contacted stale
    query FILTERS
    200 object
    200 RUNNER
    400
    401
GET /api/v4/groups/{id}/runners
    path id: string, required
    query FILTERS
    200 object
    200 RUNNER
    400
    403
    404
GET /api/v4/projects/{id}/runners
    path id: string or integer, required
    query scope: string, of specific shared instance_type group_type project_type active paused online offline never_contacted stale
    query FILTERS
    200 object
    200 RUNNER
    400
    403
    404
PUT /api/v4/runners/{id}
    path id: integer, required
    body description: string
    body active: boolean
    body paused: boolean
    body tag_list: array of string
    body run_untagged: boolean
    body locked: boolean
    body access_level: string, of not_protected ref_protected
    body maximum_timeout: integer
    body maintenance_note: string
    200 object
    200 RUNNER
    400
    401
    403
    404
GET /api/v4/runners/{id}/jobs
    path id: integer, required
    query system_id: string
    query status: string, of created waiting_for_resource preparing waiting_for_callback pending running success failed canceling canceled skipped manual scheduled
    query order_by: string, of id
    query sort: string, of asc desc
    query cursor: string
    query page: integer
    query per_page: integer
    200 object
    200 id: integer int64
    200 status: string
    400
    401
    403
    404
GET /api/v4/projects/{id}/jobs/{job_id}
    path id: string or integer, required
    path job_id: integer, required
    200 object
    200 id: integer int64
    200 status: string
    400
    401
    403
    404
DELETE /api/v4/runners/{id}
    path id: integer, required
    200 object
    200 RUNNER
    400
    401
    403
    404
    412
";

/// What it tells of a runner: `RUNNER` above.
const RUNNER: [&str; 13] = [
    "id: integer int64",
    "description: string",
    "ip_address: string",
    "active: boolean",
    "paused: boolean",
    "is_shared: boolean",
    "runner_type: string, of instance_type group_type project_type",
    "name: string",
    "online: boolean",
    "created_by: object",
    "created_at: string date-time",
    "status: string",
    "job_execution_status: string, of active idle",
];

/// How lists of them can be asked for: `FILTERS` above.
const FILTERS: [&str; 7] = [
    "type: string, of instance_type group_type project_type",
    "paused: boolean",
    "status: string, of active paused online offline never_contacted stale",
    "tag_list: array of string",
    "version_prefix: string",
    "page: integer",
    "per_page: integer",
];

/// Where ours is otherwise: in which operation, what it has instead of what, and why.
const OTHERWISE: [(&str, Option<&str>, &str, &str); 13] = [
    (
        "POST /api/v4/user/runners",
        Some("201 id: string"),
        "201 id: integer int64",
        "the source gives the record's own number; `string` is what is generated where it names no type",
    ),
    ("POST /api/v4/user/runners", None, "401", UNKNOWN_TOKEN),
    ("GET /api/v4/groups/{id}/runners", None, "401", UNKNOWN_TOKEN),
    ("GET /api/v4/projects/{id}/runners", None, "401", UNKNOWN_TOKEN),
    ("GET /api/v4/runners/all", None, "403", "the source refuses whoever is no administrator so"),
    ("GET /api/v4/runners/all", Some("200 object"), "200 array of object", A_PAGE),
    ("GET /api/v4/groups/{id}/runners", Some("200 object"), "200 array of object", A_PAGE),
    ("GET /api/v4/projects/{id}/runners", Some("200 object"), "200 array of object", A_PAGE),
    ("GET /api/v4/groups/{id}/runners", Some("path id: string, required"), NUMBER, "our scopes are numbers"),
    (
        "GET /api/v4/projects/{id}/runners",
        Some("path id: string or integer, required"),
        NUMBER,
        "our scopes are numbers",
    ),
    ("GET /api/v4/runners/{id}/jobs", Some("200 object"), "200 array of object", A_PAGE),
    (
        "GET /api/v4/projects/{id}/jobs/{job_id}",
        Some("path id: string or integer, required"),
        "path id: string, required",
        "a hook knows its project's number and its path, and in a path a number is a text",
    ),
    ("DELETE /api/v4/runners/{id}", None, "204", "the source answers so, without the runner"),
];
const UNKNOWN_TOKEN: &str = "the source asks everybody for a token first";
const A_PAGE: &str = "the source answers with a page of them";
const NUMBER: &str = "path id: integer, required";

type Facts = BTreeMap<String, BTreeSet<String>>;

#[test]
fn our_description_of_gitlab_says_what_gitlabs_own_says() {
    let mut expected = theirs();
    for (operation, theirs, ours, why) in OTHERWISE {
        let facts = expected.get_mut(operation).expect(operation);
        if let Some(theirs) = theirs {
            assert!(facts.remove(theirs), "{operation} has no {theirs:?} ({why})");
        }
        assert!(facts.insert(ours.to_owned()), "{operation} has {ours:?} already ({why})");
    }
    let ours = ours();
    assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (operation, expected) in &expected {
        let (missing, strange): (Vec<_>, Vec<_>) =
            (expected.difference(&ours[operation]).collect(), ours[operation].difference(expected).collect());
        assert!(missing.is_empty() && strange.is_empty(), "{operation} lacks {missing:?}, has {strange:?}");
    }
}

fn theirs() -> Facts {
    let mut all = Facts::new();
    let mut operation = String::new();
    for line in THEIRS.lines().filter(|line| !line.is_empty()) {
        let Some(fact) = line.strip_prefix("    ") else {
            line.clone_into(&mut operation);
            continue;
        };
        let facts = all.entry(operation.clone()).or_default();
        let many = [("RUNNER", &RUNNER[..]), ("FILTERS", &FILTERS)];
        match many.into_iter().find_map(|(name, fields)| Some((fact.strip_suffix(name)?, fields))) {
            Some((of, fields)) => facts.extend(fields.iter().map(|field| format!("{of}{field}"))),
            None => assert!(facts.insert(fact.to_owned()), "{operation} has {fact:?} twice"),
        }
    }
    all
}

fn ours() -> Facts {
    let documents = YamlLoader::load_from_str(OURS).expect("YAML");
    let description = Description(json(&documents[0]));
    let mut all = Facts::new();
    for (path, item) in description.0["paths"].as_object().expect("paths") {
        let operations = item.as_object().expect("operations").iter();
        for (method, operation) in operations.filter(|(method, _)| *method != "parameters") {
            let mut facts = BTreeSet::new();
            for parameter in elements(&item["parameters"]).chain(elements(&operation["parameters"])) {
                facts.insert(description.parameter(parameter));
            }
            facts
                .extend(description.body(&operation["requestBody"]["content"]["application/json"]["schema"]));
            for (status, answer) in operation["responses"].as_object().expect("responses") {
                facts.extend(description.answer(status, answer));
            }
            all.insert(format!("{} {path}", method.to_uppercase()), facts);
        }
    }
    all
}

struct Description(Value);

impl Description {
    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).expect(reference),
            None => value,
        }
    }

    fn parameter(&self, parameter: &Value) -> String {
        let parameter = self.resolved(parameter);
        let text = |name: &str| parameter[name].as_str().expect(name);
        let required = parameter["required"] == true;
        format!("{} {}: {}", text("in"), text("name"), field(&parameter["schema"], required))
    }

    /// Of variants together. What each that knows it requires is required.
    fn body(&self, schema: &Value) -> Vec<String> {
        let mut fields: BTreeMap<&str, (Value, bool)> = BTreeMap::new();
        let alone = (!schema.is_null() && schema["oneOf"].is_null()).then_some(schema);
        for variant in elements(&schema["oneOf"]).chain(alone).map(|variant| self.resolved(variant)) {
            for (name, schema) in variant["properties"].as_object().expect("properties") {
                let required = elements(&variant["required"]).any(|required| required == name.as_str());
                match fields.get_mut(name.as_str()) {
                    None => {
                        fields.insert(name, (schema.clone(), required));
                    }
                    Some((so_far, always)) => {
                        *always &= required;
                        if let Some(choices) = so_far["enum"].as_array_mut() {
                            let more = elements(&schema["enum"]).filter(|choice| !choices.contains(choice));
                            let more: Vec<Value> = more.cloned().collect();
                            choices.extend(more);
                        }
                    }
                }
            }
        }
        fields
            .iter()
            .map(|(name, (schema, required))| format!("body {name}: {}", field(schema, *required)))
            .collect()
    }

    fn answer(&self, status: &str, answer: &Value) -> Vec<String> {
        let schema = self.resolved(&self.resolved(answer)["content"]["application/json"]["schema"]);
        // What is in a refusal GitLab does not describe.
        if schema.is_null() || !status.starts_with('2') {
            return vec![status.to_owned()];
        }
        let (whole, one) = match schema["items"].is_null() {
            true => ("object", schema),
            false => ("array of object", self.resolved(&schema["items"])),
        };
        let fields = one["properties"].as_object().expect("properties").iter();
        let fields = fields.map(|(name, schema)| format!("{status} {name}: {}", field(schema, false)));
        fields.chain([format!("{status} {whole}")]).collect()
    }
}

fn field(schema: &Value, required: bool) -> String {
    let text = |schema: &Value, name: &str| schema[name].as_str().map(str::to_owned);
    let mut told = text(schema, "type").expect("a type");
    if let Some(items) = text(&schema["items"], "type") {
        told = format!("{told} of {items}");
    }
    if let Some(format) = text(schema, "format") {
        told = format!("{told} {format}");
    }
    if required {
        told.push_str(", required");
    }
    let choices: Vec<&str> = elements(&schema["enum"]).filter_map(Value::as_str).collect();
    if choices.is_empty() { told } else { format!("{told}, of {}", choices.join(" ")) }
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) | Yaml::String(text) => Value::from(text.as_str()),
        Yaml::Integer(number) => Value::from(*number),
        Yaml::Boolean(truth) => Value::from(*truth),
        Yaml::Array(elements) => elements.iter().map(json).collect(),
        Yaml::Hash(fields) => {
            let fields =
                fields.iter().map(|(name, value)| (name.as_str().expect("a name").to_owned(), json(value)));
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        Yaml::Null => Value::Null,
        Yaml::Alias(_) | Yaml::BadValue => panic!("the parser resolves each alias"),
    }
}

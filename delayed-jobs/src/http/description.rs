//! Holds `openapi.json` and the code together, field by field: reads the types that requests are read into, and those that
//! answers are written from, in the source.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::job::State;
use crate::store::Listed;

/// Where the types are.
const SOURCES: [&str; 9] = [
    include_str!("../http.rs"),
    include_str!("common.rs"),
    include_str!("deliveries.rs"),
    include_str!("queues.rs"),
    include_str!("request.rs"),
    include_str!("../job.rs"),
    include_str!("../store/deliveries.rs"),
    include_str!("../store/partition.rs"),
    concat!(
        include_str!("../store/lists.rs"),
        include_str!("../store/queues.rs"),
        include_str!("../store/schedules.rs")
    ),
];

/// A described object, and the type that it is read into.
const REQUESTS: &[(&str, &str)] = &[
    ("/components/schemas/NewJob", "CreateRequest"),
    ("/components/schemas/NewTime", "MoveRequest"),
    ("/components/schemas/Backoff", "Backoff"),
    ("/components/schemas/NewSchedule", "ScheduleRequest"),
    ("/components/schemas/Limits", "LimitsRequest"),
    ("/components/schemas/Limits/properties/rate", "RateRequest"),
    ("post /v1/jobs/batch", "BatchRequest"),
    ("post /v1/deliveries/ack", "AckRequest"),
    ("post /v1/deliveries/nack", "NackRequest"),
    ("post /v1/deliveries/extend", "ExtendRequest"),
    ("post /v1/jobs/cancel", "CancelRequest"),
    ("post /v1/dead/requeue", "DeadRequest"),
    ("post /v1/dead/purge", "DeadRequest"),
    ("get /v1/jobs ?", "SearchQuery"),
    ("get /v1/dead ?", "DeadQuery"),
    ("get /v1/schedules ?", "ListQuery"),
    ("post /v1/deliveries ?", "TakeQuery"),
];

/// A described object, and the type that it is written from.
const ANSWERS: &[(&str, &str)] = &[
    ("/components/schemas/Accepted", "Accepted"),
    ("/components/schemas/Job", "Job"),
    ("/components/schemas/Page", "Page"),
    ("/components/schemas/Delivery", "Delivery"),
    ("/components/schemas/Schedule", "Schedule"),
    ("/components/schemas/Overview", "Overview"),
    (
        "/components/schemas/Overview/properties/nodes/items",
        "NodeView",
    ),
    (
        "/components/schemas/Overview/properties/partitions/items",
        "PartitionView",
    ),
    ("/components/schemas/Queue", "QueueView"),
];

/// What is said of a field: its type, and whether it is always there.
type Fields = BTreeMap<String, (String, bool)>;

/// The fields of a type of the source.
fn fields_of(name: &str, of_request: bool) -> Fields {
    let head = format!("struct {name} {{\n");
    let source = SOURCES.iter().find(|source| source.contains(&head));
    let source = source.unwrap_or_else(|| panic!("no {name} in the source"));
    let body = source.split(&head).nth(1).unwrap();
    let body = body.split("\n}\n").next().unwrap();
    let (mut fields, mut attributes) = (Fields::new(), String::new());
    for line in body.lines().map(str::trim) {
        if line.starts_with("#[serde") {
            attributes += line;
            continue;
        }
        let line = line
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub(crate) ");
        let field = line.trim_start_matches("pub ").split_once(": ");
        let Some((field, of)) = field.filter(|_| !line.starts_with("//")) else {
            continue;
        };
        let attributes = std::mem::take(&mut attributes);
        let of = of.trim_end_matches(',');
        let option = of
            .strip_prefix("Option<")
            .and_then(|of| of.strip_suffix('>'));
        let inner = option.unwrap_or(of);
        if attributes.contains("flatten") {
            fields.extend(fields_of(inner, of_request));
            continue;
        }
        let is_always = match of_request {
            true => option.is_none() && !attributes.contains("default"),
            false => !attributes.contains("skip_serializing_if"),
        };
        let kind = match inner {
            _ if field == "payload" => "any",
            "u8" | "u16" | "u32" | "u64" | "usize" | "Priority" => "integer",
            "f64" => "number",
            "bool" => "boolean",
            "String" | "Queue" | "JobId" | "Receipt" | "State" | "Listed" | "Queues"
            | "BackoffKind" | "Overlap" => "string",
            "Backoff" | "RateRequest" | "Rate" => "object",
            list if list.starts_with("Vec<") => "array",
            other => panic!("{name}.{field}: what is {other}?"),
        };
        let is_null = option.is_some() && !of_request && is_always;
        let kind = if is_null {
            format!("{kind} or null")
        } else {
            kind.to_owned()
        };
        fields.insert(field.to_owned(), (kind, is_always));
    }
    assert!(!fields.is_empty(), "{name} has no fields");
    fields
}

fn kind_of(root: &Value, schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return kind_of(
            root,
            root.pointer(reference.trim_start_matches('#')).unwrap(),
        );
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ")
        }
        _ if schema["enum"].is_array() => "string".to_owned(),
        _ => "any".to_owned(),
    }
}

/// The fields that are described: of a schema, of the body of an operation, or of its query.
fn described(root: &Value, place: &str) -> Fields {
    let words: Vec<&str> = place.split(' ').collect();
    let operation = words.get(1).map(|path| &root["paths"][path][words[0]]);
    if let Some(operation) = operation.filter(|_| words.len() == 3) {
        let parameters = operation["parameters"].as_array().unwrap().iter();
        let parameters = parameters.filter(|one| one["in"] == "query");
        let one = |one: &Value| {
            let is_always = one["required"] == true;
            let name = one["name"].as_str().unwrap().to_owned();
            (name, (kind_of(root, &one["schema"]), is_always))
        };
        return parameters.map(one).collect();
    }
    let schema = match operation {
        Some(operation) => &operation["requestBody"]["content"]["application/json"]["schema"],
        None => root.pointer(place).unwrap_or_else(|| panic!("no {place}")),
    };
    let required = schema["required"].as_array().map_or(&[][..], |names| names);
    let properties = schema["properties"].as_object().unwrap();
    let one = |(name, of): (&String, &Value)| {
        let is_always = required.iter().any(|one| one == name);
        (name.clone(), (kind_of(root, of), is_always))
    };
    properties.iter().map(one).collect()
}

/// What users read: the words for states of a job are the same everywhere.
const PAGES: [(&str, &str); 11] = [
    ("README.md", include_str!("../../README.md")),
    (
        "DISTRIBUTED.md",
        include_str!("../../../docs/DISTRIBUTED.md"),
    ),
    (
        "MY-JOB-DOES-NOT-COME.md",
        include_str!("../../MY-JOB-DOES-NOT-COME.md"),
    ),
    ("alerts.yml", include_str!("../../operations/alerts.yml")),
    (
        "dashboard.json",
        include_str!("../../operations/dashboard.json"),
    ),
    ("openapi.json", include_str!("openapi.json")),
    ("page.html", include_str!("page.html")),
    ("metrics.rs", include_str!("../metrics.rs")),
    ("settings.rs, its options", include_str!("../settings.rs")),
    ("worker.py", include_str!("../../examples/worker.py")),
    ("worker.sh", include_str!("../../examples/worker.sh")),
];

#[test]
fn states_of_a_job_have_one_word_each_wherever_users_read() {
    let states = [
        State::Pending,
        State::Waiting,
        State::Running,
        State::Done,
        State::Cancelled,
        State::Dead,
    ];
    let states = states.map(|state| state.to_string());
    let root: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
    let schema = &root["components"]["schemas"]["State"];
    assert_eq!(schema["enum"], json!(states));
    let readme = PAGES[0].1;
    for state in &states {
        assert!(State::parse(state).is_some());
        let told = schema["description"].as_str().unwrap();
        assert!(told.contains(&format!("`{state}`: ")), "{state}");
        assert!(readme.contains(&format!("\n* `{state}`: ")), "{state}");
    }
    let lists = root["paths"]["/v1/jobs"]["get"]["parameters"].as_array();
    let state = lists.unwrap().iter().find(|one| one["name"] == "state");
    for listed in state.unwrap()["schema"]["enum"].as_array().unwrap() {
        let is_state = states.iter().any(|state| listed == state);
        assert!(is_state || listed == "retrying", "{listed}");
        assert!(serde_json::from_value::<Listed>(listed.clone()).is_ok());
    }
    // Words of before, and others for the same.
    for old in [
        "unread",
        "unacked",
        "unacknowledged",
        "state=fired",
        "fired job",
        "handed out, not",
        "not handed out",
    ] {
        for (page, text) in PAGES {
            let found = text.to_lowercase().find(old);
            assert_eq!(
                found, None,
                "`{old}` in {page}: a state has one word, see `State`"
            );
        }
    }
}

#[test]
fn the_description_has_the_fields_of_the_code() {
    let root: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
    let all = [(REQUESTS, true), (ANSWERS, false)];
    for (table, of_request) in all {
        for (place, name) in table {
            let (code, told) = (fields_of(name, of_request), described(&root, place));
            assert_eq!(told, code, "{place} (left) and {name} (right)");
        }
    }
    // Each operation with a body or a query is in the table.
    for (path, operations) in root["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let body = schema["$ref"].as_str().map_or_else(
                || (!schema.is_null()).then(|| format!("{method} {path}")),
                |reference| Some(reference.trim_start_matches('#').to_owned()),
            );
            let parameters = operation["parameters"].as_array();
            let query = parameters.is_some_and(|all| all.iter().any(|one| one["in"] == "query"));
            let query = query.then(|| format!("{method} {path} ?"));
            for place in body.into_iter().chain(query) {
                let is_known = REQUESTS.iter().any(|(known, _)| *known == place);
                assert!(is_known, "{place} is compared with nothing");
            }
        }
    }
}

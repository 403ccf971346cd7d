//! What operators rely on: tokens, limits, metrics, the log.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use delayed_jobs::{Client, Settings, Store, When};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{MS, consumer, job, node, now_ms, redis, settings, shared_by, until};

const READ: &str = "reads-0123456789";
const WRITE: &str = "writes-0123456789";

async fn ask(
    url: &str,
    method: Method,
    path: &str,
    token: &str,
    body: &str,
) -> (u16, String, Value) {
    let mut request = reqwest::Client::new().request(method, format!("{url}{path}"));
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = request.body(body.to_owned()).send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or_default();
    (status, text, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_read_or_write_and_are_exchanged_without_a_restart() {
    let redis = redis().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("read {READ}\nwrite {WRITE}\n")).unwrap();
    let settings = Settings { tokens: Some(file.path().to_owned()), ..settings(&redis) };
    let node = node(&settings).await;
    let url = node.address();
    let job = r#"{"delay": "1h"}"#;
    for (method, path, token, status, code) in [
        (Method::GET, "/", "", 200, ""),
        (Method::GET, "/healthz", "", 200, ""),
        (Method::GET, "/openapi.json", "", 200, ""),
        (Method::GET, "/metrics", "", 401, "unauthorized"),
        (Method::GET, "/metrics", READ, 200, ""),
        (Method::GET, "/v1/jobs", "", 401, "unauthorized"),
        (Method::GET, "/v1/jobs", "reads-012345678", 401, "unauthorized"),
        (Method::GET, "/v1/jobs", READ, 200, ""),
        (Method::GET, "/v1/overview", WRITE, 200, ""),
        (Method::POST, "/", "", 401, "unauthorized"),
        (Method::POST, "/v1/jobs", "", 401, "unauthorized"),
        (Method::POST, "/v1/jobs", READ, 403, "forbidden"),
        (Method::POST, "/v1/jobs/batch", READ, 403, "forbidden"),
        (Method::POST, "/v1/deliveries", READ, 403, "forbidden"),
        (Method::DELETE, "/v1/jobs/1-0000000000000000", READ, 403, "forbidden"),
        (Method::POST, "/v1/jobs", WRITE, 201, ""),
        (Method::POST, "/none", "", 401, "unauthorized"),
    ] {
        let (got, text, body) = ask(url, method.clone(), path, token, job).await;
        assert_eq!(got, status, "{method} {path} `{token}`: {text}");
        assert_eq!(body["error"]["code"].as_str().unwrap_or(""), code, "{method} {path}");
    }
    let client = Client::new(vec![url.to_owned()], 5_000 * MS).unwrap().with_token(WRITE);
    client.create(json!(1), When::After(MS), None).await.unwrap();

    // A file that cannot be used changes nothing, a good one does.
    std::fs::write(file.path(), "write short").unwrap();
    tokio::time::sleep(1_100 * MS).await;
    assert_eq!(ask(url, Method::GET, "/v1/jobs", READ, "").await.0, 200);
    std::fs::write(file.path(), "write another-0123456789").unwrap();
    until("the old token is refused", 5_000 * MS, || async {
        ask(url, Method::GET, "/v1/jobs", READ, "").await.0 == 401
    })
    .await;
    assert_eq!(ask(url, Method::POST, "/v1/jobs", "another-0123456789", job).await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_refuse_new_jobs_with_429_until_there_is_room() {
    let redis = redis().await;
    let settings = Settings { max_pending: Some(5), max_unread: Some(3), ..settings(&redis) };
    let node = node(&settings).await;
    let url = node.address();
    let create = |delay: &'static str| async move {
        let body = format!(r#"{{"delay": "{delay}"}}"#);
        let (status, _, body) = ask(url, Method::POST, "/v1/jobs", "", &body).await;
        (status, body["error"]["code"].as_str().unwrap_or("").to_owned(), body)
    };
    let mut ids = Vec::new();
    for _ in 0..5 {
        let (status, _, body) = create("1h").await;
        assert_eq!(status, 201, "{body}");
        ids.push(body["id"].as_str().unwrap().to_owned());
    }
    let (status, code, body) = create("1h").await;
    assert_eq!((status, code.as_str()), (429, "too_many_pending"), "{body}");
    for id in &ids[..4] {
        let path = format!("/v1/jobs/{id}");
        ask(url, Method::PATCH, &path, "", r#"{"delay_ms": 0}"#).await;
    }
    until("three jobs that nobody takes are too many", 5_000 * MS, || async {
        let (status, code, _) = create("1h").await;
        assert!(status == 429 || status == 201);
        code == "too_many_unread"
    })
    .await;
    let mut consumer = consumer(&settings).await;
    for _ in 0..4 {
        let one = consumer.next().await;
        consumer.acknowledge(&[one]).await.unwrap();
    }
    let last = format!("/v1/jobs/{}", ids[4]);
    ask(url, Method::DELETE, &last, "", "").await;
    until("there is room again", 5_000 * MS, || async { create("1h").await.0 == 201 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_of_the_namespace_and_of_answers() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let node = node(&settings).await;
    shared_by(&store, 1).await;
    let url = node.address();
    store.create(job("x", 3_600_000 * MS)).await.unwrap();
    for _ in 0..3 {
        store.create(job("x", MS)).await.unwrap();
    }
    until("three have fired", 5_000 * MS, || async { store.overview().await.unwrap().unread == 3 })
        .await;
    let (_, _, taken) = ask(url, Method::POST, "/v1/deliveries?wait=5s&hold=1s", "", "").await;
    let of_first = taken["deliveries"][0]["id"].as_str().unwrap().to_owned();
    tokio::time::sleep(1_200 * MS).await;
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let (_, _, more) = ask(url, Method::POST, "/v1/deliveries?max=10&wait=5s", "", "").await;
        taken.extend(more["deliveries"].as_array().unwrap().clone());
    }
    let again: Vec<&Value> = taken.iter().filter(|one| one["id"] == of_first.as_str()).collect();
    let body = json!({ "receipts": [again[0]["receipt"]], "dead": true }).to_string();
    ask(url, Method::POST, "/v1/deliveries/nack", "", &body).await;
    let value = async |name: &str| {
        let (_, text, _) = ask(url, Method::GET, "/metrics", "", "").await;
        let line =
            text.lines().find_map(|line| line.strip_prefix(&format!("delayed_jobs_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<f64>().unwrap()
    };
    assert_eq!((again.len(), &again[0]["attempt"]), (1, &json!(2)), "the first one came again");
    assert_eq!(value("pending").await, 1.0);
    assert_eq!(value("dead").await, 1.0);
    assert_eq!(value("unacknowledged").await, 2.0);
    assert!((1.2..60.0).contains(&value("unacknowledged_age_seconds").await));
    assert_eq!(value("redelivered_total").await, 1.0);
    assert_eq!(value("partitions_free").await, 0.0);
    assert_eq!(value("lag_seconds").await, 0.0);
    assert_eq!(value("leases_lost_total").await, 0.0);
    let labels = r#"{method="POST",route="/v1/deliveries/nack",status="200"}"#;
    assert_eq!(value(&format!("http_seconds_count{labels}")).await, 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_by_state_key_and_time() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let node = node(&settings).await;
    shared_by(&store, 1).await;
    let url = node.address();
    let hour = now_ms() + 3_600_000;
    for n in 0..20 {
        let body = json!({ "due_ms": hour + n, "idempotency_key": format!("k{n}") });
        let (status, text, _) = ask(url, Method::POST, "/v1/jobs", "", &body.to_string()).await;
        assert_eq!(status, 201, "{text}");
        store.create(job("x", MS)).await.unwrap();
    }
    until("twenty have fired", 5_000 * MS, || async {
        store.overview().await.unwrap().unread == 20
    })
    .await;
    let mut consumer = consumer(&settings).await;
    let mut taken = vec![consumer.next().await];
    taken.extend(consumer.more());
    let all = async |query: &str, limit: usize| {
        let (mut ids, mut from) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/jobs?limit={limit}{query}{from}");
            let (status, text, page) = ask(url, Method::GET, &path, "", "").await;
            assert_eq!(status, 200, "{path}: {text}");
            let jobs = page["jobs"].as_array().unwrap();
            ids.extend(jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => from = format!("&from={next}"),
                None => break,
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "{query}: a job came twice");
        count
    };
    for limit in [1, 3, 1000] {
        assert_eq!(all("", limit).await, 20);
        assert_eq!(all("&state=fired", limit).await, 20, "in pages of {limit}");
        assert_eq!(all(&format!("&after_ms={}&before_ms={}", hour + 5, hour + 8), limit).await, 3);
        assert_eq!(all(&format!("&after_ms={}", hour + 20), limit).await, 0);
        assert_eq!(all("&state=dead", limit).await, 0);
    }
    consumer.fail(&taken[..1], "x").await.unwrap();
    let (_, _, found) = ask(url, Method::GET, "/v1/jobs?key=k7", "", "").await;
    assert_eq!(found["jobs"][0]["due_ms"], hour + 7, "{found}");
    assert_eq!(ask(url, Method::GET, "/v1/jobs?key=none", "", "").await.2["jobs"], json!([]));
    for (query, hint) in
        [("state=done", "no list of done"), ("state=x", "state"), ("key=a&state=dead", "alone")]
    {
        let (status, text, _) = ask(url, Method::GET, &format!("/v1/jobs?{query}"), "", "").await;
        assert!(status == 400 && text.contains(hint), "{query}: {text}");
    }
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let (alerts, board) = (
        include_str!("../../operations/alerts.yml"),
        include_str!("../../operations/dashboard.json"),
    );
    assert!(serde_json::from_str::<Value>(board).unwrap()["panels"].as_array().unwrap().len() > 5);
    let source = include_str!("../../src/metrics.rs");
    let mut seen = 0;
    for text in [alerts, board] {
        for rest in text.split("delayed_jobs_").skip(1) {
            let end = |c: char| !(c.is_ascii_lowercase() || c == '_');
            let name = rest.split(end).next().unwrap();
            let plain = name.trim_end_matches("_total").trim_end_matches("_bucket");
            let plain = plain.trim_end_matches("_count").trim_end_matches("_sum");
            assert!(source.contains(&format!("\"{plain}\"")), "no metric {name}");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_one_line_for_an_event_of_many_partitions() {
    let mut redis = redis().await;
    let settings = settings(&redis);
    let mut node = Command::new(Path::new(env!("CARGO_BIN_EXE_delayed-jobs")))
        .args(["serve", "--listen", "127.0.0.1:0", "--redis", &settings.redis])
        .args(["--partitions", "16", "--lease", "900ms", "--patience", "300ms"])
        .env("RUST_LOG", "delayed_jobs=info")
        .env("NO_COLOR", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let store = until_open(&settings).await;
    shared_by(&store, 1).await;
    redis.kill().await.unwrap();
    tokio::time::sleep(2_500 * MS).await;
    redis.restart().await.unwrap();
    shared_by(&store, 1).await;
    tokio::time::sleep(500 * MS).await;
    node.kill().unwrap();
    let mut log = String::new();
    node.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    node.wait().unwrap();
    let lines = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("partitions acquired"), 2, "{log}");
    assert!(log.contains("partitions=16"), "{log}");
    assert_eq!(lines("leases have run out"), 1, "{log}");
    assert_eq!(lines("no beat until this ends"), 1, "{log}");
    assert_eq!(lines("Redis answers again"), 1, "{log}");
}

async fn until_open(settings: &Settings) -> Store {
    let settings = Settings { partitions: 16, ..settings.clone() };
    Store::open(settings).await.unwrap()
}

//! What operators rely on: tokens, other sites, limits, metrics, the log.

use std::collections::HashSet;
use std::process::Stdio;

use delayed_jobs::{Settings, When};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::servers::serve;
use crate::support::{HOUR, MS, Scene, ask, job, now_ms, patient, until};

const READ: &str = "reads-0123456789";
const WRITE: &str = "writes-0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn tokens_read_or_write_and_are_exchanged_without_a_restart() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("read {READ}\nwrite {WRITE}\n")).unwrap();
    let tokens = Some(file.path().to_owned());
    let (_scene, node) = Scene::served_with(|settings| settings.tokens = tokens).await;
    let asks = async |method: &str, path: &str, token: &str| {
        let url = format!("{}{path}", node.address());
        let (status, body) = ask(&url, method, token, r#"{"delay": "1h"}"#).await;
        (
            status,
            body["error"]["code"].as_str().unwrap_or("").to_owned(),
        )
    };
    for (method, path, token, status, code) in [
        ("GET", "/", "", 200, ""),
        ("GET", "/healthz", "", 200, ""),
        ("GET", "/readyz", "", 200, ""),
        ("HEAD", "/healthz", "", 200, ""),
        ("HEAD", "/v1/jobs", "", 401, ""),
        ("HEAD", "/v1/jobs", READ, 200, ""),
        ("POST", "/v1/queues/mail/pause", READ, 403, "forbidden"),
        ("GET", "/openapi.json", "", 200, ""),
        ("GET", "/metrics", "", 401, "unauthorized"),
        ("GET", "/metrics", READ, 200, ""),
        ("GET", "/v1/jobs", "", 401, "unauthorized"),
        ("GET", "/v1/jobs", "reads-012345678", 401, "unauthorized"),
        ("GET", "/v1/jobs", READ, 200, ""),
        ("GET", "/v1/overview", WRITE, 200, ""),
        ("POST", "/", "", 401, "unauthorized"),
        ("POST", "/v1/jobs", "", 401, "unauthorized"),
        ("POST", "/v1/jobs", READ, 403, "forbidden"),
        (
            "DELETE",
            "/v1/jobs/1-0000000000000000",
            READ,
            403,
            "forbidden",
        ),
        ("POST", "/v1/jobs", WRITE, 201, ""),
        ("POST", "/none", "", 401, "unauthorized"),
    ] {
        let answer = asks(method, path, token).await;
        assert_eq!(
            answer,
            (status, code.to_owned()),
            "{method} {path} `{token}`"
        );
    }
    let client = node.client().with_token(WRITE);
    client
        .create(json!(1), When::After(MS), None)
        .await
        .unwrap();

    // A file that cannot be used changes nothing, a good one does.
    std::fs::write(file.path(), "write short").unwrap();
    tokio::time::sleep(1_100 * MS).await;
    assert_eq!(asks("GET", "/v1/jobs", READ).await.0, 200);
    std::fs::write(file.path(), "write another-0123456789").unwrap();
    until("the old token is refused", async || {
        asks("GET", "/v1/jobs", READ).await.0 == 401
    })
    .await;
    assert_eq!(asks("POST", "/v1/jobs", "another-0123456789").await.0, 201);
}

/// Sends a request as it is written; returns the status and the text of the answer.
async fn send(address: &str, text: &str) -> (u16, String) {
    let address = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_can_do_nothing_to_a_node_without_tokens() {
    let (scene, node) = Scene::served_with(patient).await;
    let own = node.address().trim_start_matches("http://");
    let json = "content-type: application/json";
    let host = format!("host: {own}");
    let host = host.as_str();
    let origin = format!("origin: http://{own}");
    let pause = "POST /v1/queues/mail/pause";
    for (request, version, headers, body, status) in [
        ("POST /v1/jobs", "1.1", &[host, json][..], "{}", 201),
        ("POST /v1/jobs", "1.1", &[host, json, &origin], "{}", 201),
        ("POST /v1/jobs", "1.0", &[host, json], "{}", 201),
        // A form, or a text, needs no leave of the browser's.
        (
            "POST /v1/jobs",
            "1.1",
            &[host, "content-type: text/plain"],
            "{}",
            415,
        ),
        ("POST /v1/jobs", "1.1", &[host], "{}", 415),
        (
            pause,
            "1.1",
            &[host, "content-type: application/x-www-form-urlencoded"],
            "",
            415,
        ),
        // A request without a body needs none either.
        (pause, "1.1", &[host, "origin: https://evil.com"], "", 403),
        (pause, "1.1", &[host, "origin: null"], "", 403),
        (
            pause,
            "1.1",
            &[host, "origin: http://localhost:3000"],
            "",
            403,
        ),
        (
            pause,
            "1.1",
            &[host, &origin, "origin: https://evil.com"],
            "",
            403,
        ),
        // Its own name leads here since.
        (
            pause,
            "1.1",
            &["host: evil.com", "origin: http://evil.com"],
            "",
            403,
        ),
        ("GET /v1/jobs", "1.1", &["host: evil.com"], "", 403),
        (
            "GET /metrics",
            "1.1",
            &["host: localhost.evil.com:80"],
            "",
            403,
        ),
        ("GET /v1/jobs", "1.1", &[host, "host: evil.com"], "", 403),
        ("GET /v1/jobs", "1.1", &["host: evil.com", host], "", 403),
        ("GET /v1/jobs", "1.1", &[], "", 403),
        ("GET /v1/jobs", "1.0", &[], "", 403),
        ("GET http://evil.com/v1/jobs", "1.1", &[host], "", 403),
        ("GET http://localhost/v1/jobs", "1.1", &[host], "", 200),
        // It asks for leave to send JSON, and no answer gives it.
        (
            "OPTIONS /v1/jobs",
            "1.1",
            &[host, "origin: https://evil.com"],
            "",
            403,
        ),
        ("OPTIONS /v1/jobs", "1.1", &[host, &origin], "", 405),
        // These hold nothing of the namespace.
        ("GET /healthz", "1.0", &[], "", 200),
        ("GET /", "1.1", &["host: evil.com"], "", 200),
        ("POST /", "1.1", &["host: evil.com"], "", 403),
    ] {
        let (headers, length) = (headers.join("\r\n"), body.len());
        let text = format!("{request} HTTP/{version}\r\n{headers}\r\ncontent-length: {length}");
        let text = text.replace("\r\n\r\n", "\r\n") + "\r\nconnection: close\r\n\r\n" + body;
        let (got, answer) = send(node.address(), &text).await;
        assert_eq!(got, status, "{text}: {answer}");
        let lower = answer.to_lowercase();
        assert!(!lower.contains("access-control"), "{text}: {answer}");
        for (status, cure) in [(415, "--json"), (403, "`hosts`")] {
            assert!(got != status || answer.contains(cure), "{text}: {answer}");
        }
    }
    let paused = scene.store.overview().await.unwrap().queues;
    assert!(paused.iter().all(|queue| !queue.paused));
    // No other site shows the page within its own.
    let page = format!("GET / HTTP/1.1\r\n{host}\r\nconnection: close\r\n\r\n");
    let (_, page) = send(node.address(), &page).await;
    assert!(page.contains("frame-ancestors 'self'"), "{page:.500}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_network_has_tokens_or_says_that_it_has_none() {
    let scene = Scene::with(patient).await;
    let any = ["--listen", "0.0.0.0:0"];
    let output = serve(&scene.redis.url(), &any).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("`tokens`") && said.contains("without_tokens"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(2));
    let mut node = serve(&scene.redis.url(), &any)
        .args(["--without-tokens", "--hosts", "jobs,jobs.example.org"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let port = line.rsplit(':').next().unwrap();
    for (host, origin, status) in [
        ("jobs", "https://jobs.example.org", 201),
        ("jobs.example.org:80", "http://jobs", 201),
        ("10.1.2.3", "http://10.1.2.3", 201),
        ("jobs", "https://evil.com", 403),
        ("evil.com", "http://evil.com", 403),
    ] {
        let text = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: {host}\r\norigin: {origin}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        let (got, answer) = send(&format!("127.0.0.1:{port}"), &text).await;
        assert_eq!(got, status, "{host} {origin}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_refuse_new_jobs_with_429_until_there_is_room() {
    let limit = |settings: &mut Settings| {
        (settings.max_pending, settings.max_waiting) = (Some(5), Some(3));
    };
    let (scene, node) = Scene::served_with(limit).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let made = node.post("/v1/jobs", json!({ "delay": "1h" })).await;
        ids.push(made["id"].as_str().unwrap().parse().unwrap());
    }
    assert_eq!(node.creates().await, (429, json!("too_many_pending")));
    for id in &ids[..4] {
        scene.store.reschedule(id, When::At(0), None).await.unwrap();
    }
    until("three jobs that nobody takes are too many", async || {
        let (status, code) = node.creates().await;
        assert!(status == 429 || status == 201);
        code == "too_many_waiting"
    })
    .await;
    scene.collect(&ids[..4]).await;
    scene.store.cancel(&ids[4]).await.unwrap();
    until("there is room again", async || {
        node.creates().await.0 == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_tell_of_the_namespace_and_of_answers() {
    let (scene, node) = Scene::served().await;
    scene.create(job("x", HOUR)).await;
    for _ in 0..3 {
        node.post("/v1/jobs", json!({ "delay_ms": 1 })).await;
    }
    until("three have fired", async || {
        scene.store.overview().await.unwrap().waiting == 3
    })
    .await;
    let first = node.post("/v1/deliveries?wait=5s&hold=1s", "").await["deliveries"][0].clone();
    tokio::time::sleep(1_200 * MS).await;
    let mut taken = Vec::new();
    while taken.len() < 3 {
        taken.extend(node.take("").await);
    }
    let again: Vec<&Value> = taken
        .iter()
        .filter(|one| one["id"] == first["id"])
        .collect();
    assert_eq!(
        (again.len(), &again[0]["attempt"]),
        (1, &json!(2)),
        "the first one came again"
    );
    let body = json!({ "receipts": [again[0]["receipt"]], "dead": true });
    node.post("/v1/deliveries/nack", body).await;
    for (name, value) in [
        ("pending", 1.0),
        ("dead", 1.0),
        ("running", 2.0),
        ("accepted_total", 3.0),
        ("fired_total", 3.0),
        ("lateness_seconds_count", 3.0),
        ("redelivered_total", 1.0),
        ("partitions", 4.0),
        ("partitions_free", 0.0),
        ("lag_seconds", 0.0),
        ("leases_lost_total", 0.0),
        ("redis_up", 1.0),
        (
            r#"http_seconds_count{method="POST",route="/v1/deliveries/nack",status="200"}"#,
            1.0,
        ),
    ] {
        assert_eq!(node.metric(name).await, value, "{name}");
    }
    assert_eq!(node.metric("waiting").await, 0.0);
    let age = node.metric("running_age_seconds").await;
    assert!((0.001..60.0).contains(&age), "{age}");
    node.ask("POST", "/v1/jobs", "[]").await;
    assert_eq!(node.metric("refused_total").await, 1.0);
    for method in ["A", "B", "C"] {
        assert_eq!(node.ask(method, "/v1/jobs", "").await.0, 405);
    }
    let unknown = r#"http_seconds_count{method="other",route="/v1/jobs",status="405"}"#;
    assert_eq!(node.metric(unknown).await, 3.0);
    // Prometheus names the newer format, and others get the older one.
    for (accepted, kind, has_end) in [
        (
            "application/openmetrics-text;version=1.0.0,*/*;q=0.1",
            "application/openmetrics-text",
            true,
        ),
        (
            "text/plain;version=0.0.4",
            "text/plain; version=0.0.4",
            false,
        ),
        ("*/*", "text/plain; version=0.0.4", false),
    ] {
        let request = reqwest::Client::new().get(format!("{}/metrics", node.address()));
        let answer = request.header("accept", accepted).send().await.unwrap();
        let said = answer.headers()["content-type"].to_str().unwrap();
        assert!(said.starts_with(kind), "{accepted}: {said}");
        let text = answer.text().await.unwrap();
        assert_eq!(text.ends_with("# EOF\n"), has_end, "{accepted}: {text}");
    }
    let health = node.get("/healthz").await;
    assert_eq!(
        (&health["redis"], &health["partitions"]),
        (&json!("up"), &json!(4))
    );
    assert_eq!(health["append_only_file"], "everysec");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_by_state_key_and_time() {
    let (scene, node) = Scene::served_with(patient).await;
    let hour = now_ms() + 3_600_000;
    for n in 0..60 {
        // Several at one moment, which pages must be able to divide.
        let key = format!("k{n}");
        let body = json!({ "due_ms": hour + n / 20, "payload": n, "idempotency_key": key });
        node.post("/v1/jobs", body).await;
    }
    scene.fill(20, MS).await;
    until("twenty have fired", async || {
        scene.store.overview().await.unwrap().waiting == 20
    })
    .await;
    let taken = node.post("/v1/deliveries?max=8&hold=1h", "").await;
    let running = taken["deliveries"].as_array().unwrap().len();
    assert!(running > 0);
    let count = async |query: &str, limit: usize| {
        let (mut ids, mut from) = (Vec::new(), String::new());
        loop {
            let page = node
                .get(&format!("/v1/jobs?limit={limit}{query}{from}"))
                .await;
            let jobs = page["jobs"].as_array().unwrap();
            assert!(
                jobs.len() <= limit && ids.len() <= 60,
                "{query}: pages without an end"
            );
            ids.extend(
                jobs.iter()
                    .map(|job| job["id"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => from = format!("&from={next}"),
                None => break,
            }
        }
        let different: HashSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{query}: a job came twice");
        ids.len()
    };
    for limit in [1, 7, 60, 1000] {
        assert_eq!(count("", limit).await, 60, "in pages of {limit}");
        for (state, jobs) in [("waiting", 20 - running), ("running", running)] {
            let found = count(&format!("&state={state}"), limit).await;
            assert_eq!(found, jobs, "{state} in pages of {limit}");
        }
        let range = format!("&after_ms={}&before_ms={}", hour + 1, hour + 3);
        assert_eq!(count(&range, limit).await, 40, "in pages of {limit}");
        assert_eq!(count(&format!("&after_ms={}", hour + 3), limit).await, 0);
        assert_eq!(count("&state=dead", limit).await, 0);
    }
    assert_eq!(node.get("/v1/jobs?key=k7").await["jobs"][0]["payload"], 7);
    assert_eq!(node.get("/v1/jobs?key=none").await["jobs"], json!([]));
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let (alerts, board) = (
        include_str!("../../operations/alerts.yml"),
        include_str!("../../operations/dashboard.json"),
    );
    assert!(
        serde_json::from_str::<Value>(board).unwrap()["panels"]
            .as_array()
            .unwrap()
            .len()
            > 5
    );
    let source = include_str!("../../src/metrics.rs");
    let names: Vec<&str> = [alerts, board]
        .iter()
        .flat_map(|text| text.split("delayed_jobs_").skip(1))
        .map(|rest| {
            rest.split(|c: char| !c.is_ascii_lowercase() && c != '_')
                .next()
                .unwrap()
        })
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let plain = name.trim_end_matches("_total").trim_end_matches("_bucket");
        let plain = plain.trim_end_matches("_count").trim_end_matches("_sum");
        assert!(source.contains(&format!("\"{plain}\"")), "no metric {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_one_line_for_an_event_of_many_partitions() {
    let mut scene = Scene::with(|settings| settings.partitions = 16).await;
    let mut node = serve(
        &scene.redis.url(),
        &["--lease", "900ms", "--patience", "300ms"],
    )
    .env("RUST_LOG", "delayed_jobs=info")
    .env("NO_COLOR", "1")
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    scene.shared_by(1).await;
    scene.redis.kill().await.unwrap();
    tokio::time::sleep(2_500 * MS).await;
    scene.redis.restart().await.unwrap();
    scene.shared_by(1).await;
    tokio::time::sleep(500 * MS).await;
    node.start_kill().unwrap();
    let log = String::from_utf8(node.wait_with_output().await.unwrap().stderr).unwrap();
    let told = |what: &str| -> Vec<usize> {
        let told = log.lines().filter_map(|line| line.split_once(what));
        told.map(|(_, count)| count.trim().parse().expect("a number"))
            .collect()
    };
    // A beat may lie between the ends of two leases, as between their beginnings.
    for (what, times) in [
        ("acquired partitions=", 2),
        ("leases have run out partitions=", 1),
    ] {
        let told = told(what);
        assert!(
            told.len() <= 2 * times && told.iter().sum::<usize>() == 16 * times,
            "{log}"
        );
    }
    for what in ["no beat until this ends", "Redis answers again"] {
        assert_eq!(log.matches(what).count(), 1, "{log}");
    }
}

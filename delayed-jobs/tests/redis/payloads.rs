//! Payloads: consumers get the text that was given, and a node does not pay for its shape.

use std::process::Stdio;

use delayed_jobs::{NewJob, Queue, When};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Api, HOUR, MS, PROGRAM, Scene, patient, until};

/// Payloads that a reader of JSON could give back in another way.
const TEXTS: [&str; 12] = [
    "0.30000000000000004",
    "9.007199254740993e15",
    "5.0e-324",
    "0.12345678901234567",
    "123456789012345678901234567890",
    "-0",
    "1.0",
    "null",
    r#"{"b":1,"a":2,"b":3}"#,
    r#"{"$serde_json::private::RawValue":"1"}"#,
    r#"[{"$serde_json::private::RawValue":"{\"a\": 2}"}]"#,
    r#"[{"$serde_json::private::Number":"x"}]"#,
];

/// Asks a node, and returns the text of its answer.
async fn text(node: &Api, method: &str, path: &str, body: String) -> String {
    let request = match method {
        "GET" => reqwest::Client::new().get(format!("{}{path}", node.address())),
        "PUT" => reqwest::Client::new().put(format!("{}{path}", node.address())),
        _ => reqwest::Client::new().post(format!("{}{path}", node.address())),
    };
    let request = request.header("content-type", "application/json");
    let answer = request.body(body).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {answer:?}");
    answer.text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_back_as_the_text_that_was_given() {
    let (_scene, node) = Scene::served_with(patient).await;
    for payload in TEXTS {
        let shown = format!("\"payload\":{payload}");
        let body = format!(r#"{{ "payload" : {payload} , "delay": "0s" }}"#);
        let made = text(&node, "POST", "/v1/jobs", body.clone()).await;
        let id: Value = serde_json::from_str(&made).unwrap();
        let id = id["id"].as_str().unwrap();
        let many = format!(r#"{{"jobs": [{body}]}}"#);
        text(&node, "POST", "/v1/jobs/batch", many).await;
        let path = format!("/v1/jobs/{id}");
        let job = text(&node, "GET", &path, String::new()).await;
        assert!(job.contains(&shown), "{payload}: {job}");
        for _ in 0..2 {
            let path = "/v1/deliveries?wait=5s&max=1";
            let taken = text(&node, "POST", path, String::new()).await;
            assert!(taken.contains(&shown), "{payload}: {taken}");
            let taken: Value = serde_json::from_str(&taken.replace(&shown, "\"x\":0")).unwrap();
            let receipts = json!({ "receipts": [taken["deliveries"][0]["receipt"]] });
            text(&node, "POST", "/v1/deliveries/ack", receipts.to_string()).await;
        }
        let tea = format!(r#"{{"payload": {payload}, "every": "1h"}}"#);
        text(&node, "PUT", "/v1/schedules/tea", tea).await;
        for path in ["/v1/schedules/tea", "/v1/schedules"] {
            let tea = text(&node, "GET", path, String::new()).await;
            assert!(tea.contains(&shown), "{payload}: {tea}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_and_the_command_hand_a_payload_on_as_it_is() {
    let (_scene, node) = Scene::served_with(patient).await;
    let client = node.client();
    let folder = tempfile::tempdir().unwrap();
    let _worker = Command::new(PROGRAM)
        .args(["consume", "--node", node.address(), "--queue", "run"])
        .args(["--exec", "cat > new && mv new told"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    for payload in TEXTS {
        let new = |queue: &str| NewJob {
            queue: queue.parse().unwrap(),
            ..NewJob::new(payload, When::After(MS))
        };
        let made = client.make(&new("default")).await.unwrap();
        let job = client.get(&made.id).await.unwrap();
        assert_eq!(job.payload.as_deref(), Some(payload));
        let taken = client.take(&[Queue::default()], 1, 10_000 * MS, HOUR).await;
        assert_eq!(taken.unwrap()[0].payload, payload);
        client.make(&new("run")).await.unwrap();
        until("the command has it", async || {
            std::fs::read_to_string(folder.path().join("told")).is_ok_and(|told| told == payload)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_the_same_request_makes_one_job_whatever_the_space() {
    let (_scene, node) = Scene::served_with(patient).await;
    for (body, status) in [
        (
            r#"{"delay":"1h","idempotency_key":"k","payload":{"a":[1," "]}}"#,
            201,
        ),
        (
            r#"{"payload": { "a" : [ 1 , " " ] }, "delay": "1h", "idempotency_key": "k"}"#,
            200,
        ),
        (
            r#"{"delay":"1h","idempotency_key":"k","payload":{"a":[1,""]}}"#,
            409,
        ),
        (
            r#"{"delay":"1h","idempotency_key":"k","payload":{"a":[1.0," "]}}"#,
            409,
        ),
    ] {
        let (got, answer) = node.ask("POST", "/v1/jobs", body).await;
        assert_eq!(got, status, "{body}: {answer}");
    }
}

/// The memory of a node in MiB: now, and the most so far.
#[cfg(target_os = "linux")]
fn memory(node: &Api) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.unwrap().trim().trim_end_matches(" kB");
        number.parse::<u64>().unwrap() / 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_costs_a_few_times_its_size_and_nothing_afterwards() {
    let (_scene, node) = Scene::served_with(patient).await;
    // Each of these objects was a table of 600 bytes in memory.
    let payload = |bytes: usize| format!("[{}0]", r#"{"":0},"#.repeat(bytes / 7));
    let job = |payload: &str| format!(r#"{{"delay": "1h", "payload": {payload}}}"#);
    let batch = |jobs: Vec<String>| format!(r#"{{"jobs": [{}]}}"#, jobs.join(","));
    let good = batch(vec![job(&payload(65_000)); 62]);
    let wrong = batch([vec![job(&payload(65_000)); 62], vec![job("1e999")]].concat());
    let one = batch(vec![job(&payload(4_000_000))]);
    let short = batch(vec!["{}".to_owned(); 1_300_000]);
    node.post("/v1/jobs", json!({ "delay": "1h" })).await;
    let (before, _) = memory(&node);
    for (what, body, status) in [
        ("wrong", &wrong, 400),
        ("one large payload", &one, 413),
        ("many short jobs", &short, 400),
        ("good", &good, 200),
    ] {
        assert!((3_800_000..4_194_304).contains(&body.len()), "{what}");
        let (got, answer) = node.ask("POST", "/v1/jobs/batch", body).await;
        assert_eq!(got, status, "{what}: {answer:.300}");
        let (now, most) = memory(&node);
        eprintln!("{what}: {now} MiB, {most} at most, {before} before");
        assert!(
            most < before + 80,
            "{what}: {before} MiB before, {most} MiB at most"
        );
    }
    let all = (0..16).map(|n| {
        let request = reqwest::Client::new().post(format!("{}/v1/jobs/batch", node.address()));
        let request = request.header("content-type", "application/json");
        // A busy machine may take longer than a request may.
        request.body([&good, &wrong][n % 2].clone()).send()
    });
    futures_util::future::join_all(all).await;
    let (now, most) = memory(&node);
    eprintln!("16 at once: {now} MiB, {most} at most, {before} before");
    assert!(
        most < before + 400,
        "{before} MiB before, {most} MiB at most"
    );
    // Lists show the payloads without a look at them.
    node.ask("GET", "/v1/jobs?limit=100", "").await;
}

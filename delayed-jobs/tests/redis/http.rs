//! The interface: answers, refusals, and that its description is complete.

use delayed_jobs::{Client, ClientError, State, When};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{MS, collect, consumer, node, now_ms, redis, settings, until};

pub(crate) async fn ask(method: &str, url: &str, body: &str) -> (u16, Value) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    // A client per runtime: connections end with the runtime that made them.
    let answer = reqwest::Client::new().request(method, url).body(body.to_owned());
    let answer = answer.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_lives_its_life_over_http() {
    let redis = redis().await;
    let settings = settings(&redis);
    let (one, two) = (node(&settings).await, node(&settings).await);
    let jobs = format!("{}/v1/jobs", one.address());
    let body = json!({ "payload": { "to": "x" }, "delay": "1m", "idempotency_key": "k" });
    let (status, made) = ask("POST", &jobs, &body.to_string()).await;
    assert_eq!((status, &made["repeated"]), (201, &json!(false)), "{made}");
    let (status, again) = ask("POST", &jobs, &body.to_string()).await;
    assert_eq!((status, &again["repeated"], &again["id"]), (200, &json!(true), &made["id"]));

    // The other node does the rest.
    let jobs = format!("{}/v1/jobs", two.address());
    let job = format!("{jobs}/{}", made["id"].as_str().unwrap());
    let (status, read) = ask("GET", &job, "").await;
    assert_eq!((status, &read["payload"]), (200, &json!({ "to": "x" })));
    let (status, list) = ask("GET", &format!("{jobs}?limit=5"), "").await;
    assert_eq!((status, &list["jobs"], &list["next"]), (200, &json!([read]), &Value::Null));
    let due = now_ms() + 50_000;
    let (status, moved) = ask("PATCH", &job, &json!({ "due_ms": due }).to_string()).await;
    assert_eq!((status, &moved["due_ms"]), (200, &json!(due)), "{moved}");
    for _ in 0..2 {
        let (status, ended) = ask("DELETE", &job, "").await;
        assert_eq!((status, &ended["state"]), (200, &json!("cancelled")));
    }
    let (status, late) = ask("PATCH", &job, &json!({ "delay_ms": 5 }).to_string()).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("conflict")));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_a_reason() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let jobs = format!("{}/v1/jobs", node.address());
    let big = json!({ "payload": "x".repeat(65 * 1024), "delay_ms": 1 }).to_string();
    let huge = json!({ "payload": "x".repeat(300 * 1024), "delay_ms": 1 }).to_string();
    let cases = [
        ("POST", "", "", 400, "body"),
        ("POST", "", "{", 400, "EOF"),
        ("POST", "", "[1]", 400, "body"),
        ("POST", "", "{}", 400, "exactly one"),
        ("POST", "", r#"{"delay_ms": -1}"#, 400, "-1"),
        ("POST", "", r#"{"delay_ms": 1.5}"#, 400, "1.5"),
        ("POST", "", r#"{"delay_ms": 1, "dely": 2}"#, 400, "dely"),
        ("POST", "", r#"{"delay": "soon"}"#, 400, "like 1500ms"),
        ("POST", "", r#"{"due": "31.1.2030"}"#, 400, "2030-01-31T12:00:00Z"),
        ("POST", "", r#"{"delay_ms": 1, "idempotency_key": ""}"#, 400, "1 to 200"),
        ("POST", "", &big, 413, "at most 65536"),
        ("POST", "", &huge, 413, ""),
        ("GET", "/7", "", 400, "is not the id"),
        ("GET", "/1-0000000000000000", "", 404, "no job"),
        ("DELETE", "/1-0000000000000000", "", 404, "no job"),
        ("PATCH", "/1-0000000000000000", "{}", 400, "exactly one"),
        ("PATCH", "/1-0000000000000000", r#"{"delay_ms":1}"#, 404, "no job"),
        ("GET", "?limit=0", "", 400, "1 to 1000"),
        ("GET", "?limit=many", "", 400, "limit"),
        ("GET", "?from=here", "", 400, "end of a page"),
        ("GET", "?size=1", "", 400, "size"),
        ("PUT", "", "", 405, "openapi.json"),
        ("GET", "/1/2", "", 404, "openapi.json"),
    ];
    for (method, path, body, status, hint) in cases {
        let (got, answer) = ask(method, &format!("{jobs}{path}"), body).await;
        let reason = answer["error"]["reason"].as_str().unwrap_or("none");
        assert_eq!(got, status, "{method} {path} {body:.80}: {answer}");
        assert!(reason.contains(hint), "{method} {path} {body:.80}: {reason}");
    }
    let (_, overview) = ask("GET", &format!("{}/v1/overview", node.address()), "").await;
    assert_eq!(overview["pending"], 0, "nothing of this was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_does_the_same() {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = node(&settings).await;
    // The first address does not answer.
    let nodes = vec!["http://127.0.0.1:1".to_owned(), node.address().to_owned()];
    let client = Client::new(nodes, 5_000 * MS).unwrap();
    let made = client.create(json!([1, "two"]), When::After(60_000 * MS), Some("k")).await.unwrap();
    assert!(
        client
            .create(json!([1, "two"]), When::After(60_000 * MS), Some("k"))
            .await
            .unwrap()
            .repeated
    );
    let reused = client.create(json!(3), When::After(60_000 * MS), Some("k")).await.unwrap_err();
    assert!(matches!(reused, ClientError::Refused { status: 409, .. }), "{reused}");
    assert_eq!(client.get(&made.id).await.unwrap().payload, json!([1, "two"]));
    assert_eq!(client.list(None, 10).await.unwrap().jobs.len(), 1);
    client.reschedule(&made.id, When::After(20 * MS)).await.unwrap();
    let ids = [made.id];
    let got = collect(&mut consumer(&settings).await, &ids, 5_000 * MS).await;
    assert_eq!(got[&ids[0]][0].payload, r#"[1,"two"]"#);
    assert!(client.cancel(&ids[0]).await.unwrap_err().is_too_late());
    assert_eq!(client.get(&ids[0]).await.unwrap().state, State::Done);
    until("the node has told of itself", 5_000 * MS, || async {
        client.overview().await.unwrap().nodes.iter().any(|one| one.address == node.address())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_names_every_route_and_its_answers() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let (status, text) = ask("GET", &format!("{}/openapi.json", node.address()), "").await;
    assert_eq!((status, &text["openapi"]), (200, &json!("3.1.0")));
    let paths = text["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 17);
    let all = ["get", "put", "post", "delete", "patch"];
    for (path, methods) in paths {
        let url = format!(
            "{}{}",
            node.address(),
            path.replace("{id}", "1-00000000000000aa").replace("{name}", "nightly")
        );
        for method in all {
            let (status, _) = ask(&method.to_uppercase(), &url, "").await;
            match methods.get(method) {
                None => assert_eq!(status, 405, "{method} {path} is not described"),
                Some(described) => {
                    let answer = &described["responses"][status.to_string()];
                    assert!(answer["description"].is_string(), "{method} {path}: {status}");
                }
            }
        }
    }
    // Whatever is referred to is there.
    let text = text.to_string();
    for name in
        text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap())
    {
        assert!(text.contains(&format!("\"{name}\":{{")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_tell_what_is() {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = node(&settings).await;
    let client = Client::new(vec![node.address().to_owned()], 5_000 * MS).unwrap();
    let made = client.create(Value::Null, When::After(5 * MS), None).await.unwrap();
    collect(&mut consumer(&settings).await, &[made.id], 5_000 * MS).await;
    let (status, health) = ask("GET", &format!("{}/healthz", node.address()), "").await;
    assert_eq!((status, &health["redis"]), (200, &json!("up")));
    assert_eq!(
        (&health["append_only_file"], &health["partitions"]),
        (&json!("everysec"), &json!(4))
    );
    let (_, text) = ask("GET", &format!("{}/metrics", node.address()), "").await;
    let text = text.as_str().unwrap();
    for line in [
        "delayed_jobs_accepted_total 1",
        "delayed_jobs_fired_total 1",
        "delayed_jobs_partitions 4",
        "delayed_jobs_redis_up 1",
        "delayed_jobs_lateness_seconds_count 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
    }
}

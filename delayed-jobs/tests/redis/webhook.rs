//! Jobs that a node pushes to a URL.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::servers::serve;
use crate::support::{HOUR, MS, Scene, job, until};

const KEY: &str = "a key of the tests";

/// What the receiver has seen.
#[derive(Default)]
struct Seen {
    attempts: HashMap<String, u64>,
    under_way: usize,
    most_under_way: usize,
}

type Shared = Arc<Mutex<Seen>>;

fn is_signed(headers: &HeaderMap, body: &str) -> bool {
    let header = |name: &str| headers[name].to_str().unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
    let signed = format!(
        "{}.{}.{body}",
        header("webhook-id"),
        header("webhook-timestamp")
    );
    mac.update(signed.as_bytes());
    header("webhook-signature") == format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

async fn receive(State(seen): State<Shared>, headers: HeaderMap, body: String) -> Response {
    if !is_signed(&headers, &body) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let job: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(job["id"], headers["webhook-id"].to_str().unwrap());
    let payload = job["payload"].as_str().unwrap().to_owned();
    {
        let mut seen = seen.lock().unwrap();
        seen.attempts
            .insert(payload.clone(), job["attempt"].as_u64().unwrap());
        seen.under_way += usize::from(payload.starts_with("many"));
        seen.most_under_way = seen.most_under_way.max(seen.under_way);
    }
    tokio::time::sleep(30 * MS).await;
    let answer = match (payload.as_str(), job["attempt"].as_u64().unwrap()) {
        ("poison", _) => (StatusCode::BAD_REQUEST, "no such order").into_response(),
        ("second", 1) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        ("busy", 1) => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]).into_response(),
        ("dated", 1) => {
            let date = |seconds| httpdate::fmt_http_date(SystemTime::now() + seconds);
            // The receiver's clock is an hour ahead of ours.
            let headers = [
                ("date", date(HOUR)),
                ("retry-after", date(HOUR + 3_000 * MS)),
            ];
            (StatusCode::TOO_MANY_REQUESTS, headers).into_response()
        }
        ("moved", _) => (StatusCode::FOUND, [("location", "/other")]).into_response(),
        ("slow", 1) => {
            tokio::time::sleep(4_000 * MS).await;
            StatusCode::OK.into_response()
        }
        _ => StatusCode::OK.into_response(),
    };
    seen.lock().unwrap().under_way -= usize::from(payload.starts_with("many"));
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_pushed_with_a_signature_and_each_answer_counts() {
    let scene = Scene::new().await;
    let seen = Shared::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jobs", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/jobs", post(receive))
        .with_state(Arc::clone(&seen));
    tokio::spawn(axum::serve(listener, router).into_future());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{KEY}\n")).unwrap();
    let secret = [
        "--webhook-url",
        &url,
        "--webhook-secret-file",
        file.path().to_str().unwrap(),
    ];
    let limits = ["--webhook-timeout", "1500ms", "--webhook-concurrency", "3"];
    let more = [&secret[..], &limits].concat();
    let _pushing = serve(&scene.redis.url(), &more).spawn().unwrap();
    // It pushes what the others accept, and this one consumes nothing.
    let node = scene.node().await;
    let mut ids = HashMap::new();
    for payload in ["poison", "second", "busy", "dated", "moved", "slow"] {
        let body = json!({ "payload": payload, "delay_ms": 20, "max_attempts": 2,
            "backoff": { "kind": "fixed", "delay": "50ms" } });
        ids.insert(payload, node.post("/v1/jobs", body).await["id"].clone());
    }
    for (payload, state, attempts) in [
        ("poison", "dead", 2),
        ("second", "done", 2),
        ("busy", "done", 2),
        ("dated", "done", 2),
        ("moved", "dead", 2),
        ("slow", "done", 2),
    ] {
        let id = &ids[payload];
        until(&format!("{payload} is {state}"), async || {
            node.has_state(id, state).await
        })
        .await;
        assert_eq!(node.job(id).await["attempts"], attempts, "{payload}");
        assert_eq!(
            seen.lock().unwrap().attempts[payload],
            attempts,
            "{payload}"
        );
    }
    assert_eq!(
        node.job(&ids["poison"]).await["reason"],
        "400 Bad Request: no such order"
    );
    for (payload, least) in [("busy", 1_000), ("dated", 3_000)] {
        let job = node.job(&ids[payload]).await;
        let rest = job["fired_ms"].as_u64().unwrap() - job["created_ms"].as_u64().unwrap();
        assert!(
            (least..least + 60_000).contains(&rest),
            "the receiver asked for {least} ms, not for {rest} ms"
        );
    }

    let many: Vec<Value> = (0..20)
        .map(|n| json!({ "payload": format!("many {n}"), "delay_ms": 100 }))
        .collect();
    node.post("/v1/jobs/batch", json!({ "jobs": many })).await;
    until("all are pushed", async || {
        seen.lock().unwrap().attempts.len() == 26
    })
    .await;
    assert_eq!(seen.lock().unwrap().most_under_way, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_fails_says_what_has_caused_it_and_takes_one_queue() {
    let scene = Scene::new().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    // Nobody listens there.
    let more = [
        "--webhook-url",
        "http://127.0.0.1:9/jobs",
        "--webhook-queue",
        "mail",
        "--webhook-secret-file",
        file.path().to_str().unwrap(),
    ];
    let _pushing = serve(&scene.redis.url(), &more).spawn().unwrap();
    let node = scene.node().await;
    let body = |queue: &str| json!({ "queue": queue, "max_attempts": 1 });
    let other = node.post("/v1/jobs", body("default")).await;
    let made = node.post("/v1/jobs", body("mail")).await;
    until("it is dead", async || {
        node.has_state(&made["id"], "dead").await
    })
    .await;
    let reason = node.job(&made["id"]).await["reason"].clone();
    let reason = reason.as_str().unwrap();
    assert!(reason.contains("Connection refused"), "{reason}");
    assert!(
        !reason.contains("127.0.0.1:9/jobs"),
        "a URL may hold a secret: {reason}"
    );
    assert!(node.has_state(&other["id"], "waiting").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_answer_without_an_end_only_the_beginning_is_read() {
    let scene = Scene::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let talk = async || {
        let parts =
            futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>("x".repeat(1_000)));
        (StatusCode::INTERNAL_SERVER_ERROR, Body::from_stream(parts))
    };
    let router = Router::new().route("/", post(talk));
    tokio::spawn(axum::serve(listener, router).into_future());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    let secret = ["--webhook-secret-file", file.path().to_str().unwrap()];
    let more = [
        &["--webhook-url", &url, "--webhook-timeout", "60s"],
        &secret[..],
    ]
    .concat();
    let _pushing = serve(&scene.redis.url(), &more).spawn().unwrap();
    let node = scene.node().await;
    let made = node.post("/v1/jobs", json!({ "max_attempts": 1 })).await;
    // Long before the timeout.
    until("it is dead", async || {
        node.has_state(&made["id"], "dead").await
    })
    .await;
    let reason = node.job(&made["id"]).await["reason"].clone();
    assert_eq!(
        reason,
        format!("500 Internal Server Error: {}", "x".repeat(200))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_asked_to_end_waits_for_no_receiver_that_does_not_answer() {
    let scene = Scene::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    let secret = ["--webhook-secret-file", file.path().to_str().unwrap()];
    let more = [
        &["--webhook-url", &url, "--webhook-timeout", "60s"],
        &secret[..],
    ]
    .concat();
    let mut pushing = serve(&scene.redis.url(), &more).spawn().unwrap();
    scene.create(job("x", MS)).await;
    let _silent = listener.accept().await.unwrap();
    let id = i32::try_from(pushing.id().unwrap()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(25_000 * MS, pushing.wait()).await;
    assert!(ended.is_ok(), "it waits for the receiver");
    assert!(scene.holders().await.is_empty());
}

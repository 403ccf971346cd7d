//! The interface: answers, refusals, and that its description is complete.

use std::time::Duration;

use delayed_jobs::{Client, ClientError, State, When};
use serde_json::{Value, json};

use crate::support::{HOUR, MS, Scene, job, now_ms, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_lives_its_life_over_http() {
    let scene = Scene::new().await;
    let (one, two) = (scene.node().await, scene.node().await);
    let body = json!({ "payload": { "to": "x" }, "delay": "1m", "idempotency_key": "k" });
    let (status, made) = one.ask("POST", "/v1/jobs", &body).await;
    assert_eq!((status, &made["repeated"]), (201, &json!(false)), "{made}");
    let (status, again) = one.ask("POST", "/v1/jobs", &body).await;
    assert_eq!(
        (status, &again["repeated"], &again["id"]),
        (200, &json!(true), &made["id"])
    );

    // The other node does the rest.
    let read = two.job(&made["id"]).await;
    assert_eq!(
        (&read["payload"], &read["state"]),
        (&json!({ "to": "x" }), &json!("pending"))
    );
    let ms = |field: &str| read[field].as_u64().unwrap();
    assert_eq!(
        (ms("due_ms") - ms("created_ms"), &read["due_ms"]),
        (60_000, &made["due_ms"])
    );
    let mut read = read;
    assert!(read["waits"].as_str().unwrap().contains("it is due in"));
    read.as_object_mut().unwrap().remove("waits");
    let list = two.get("/v1/jobs?limit=5").await;
    assert_eq!(list, json!({ "jobs": [read], "next": null }));
    let (job, due) = (
        format!("/v1/jobs/{}", made["id"].as_str().unwrap()),
        now_ms() + 50_000,
    );
    for _ in 0..2 {
        let (status, moved) = two.ask("PATCH", &job, json!({ "due_ms": due })).await;
        assert_eq!((status, &moved["due_ms"]), (200, &json!(due)), "{moved}");
    }
    let mut due = Vec::new();
    for key in ["once", "once", "again"] {
        let body = json!({ "delay": "1h", "idempotency_key": key });
        due.push(
            two.ask("PATCH", &job, body).await.1["due_ms"]
                .as_u64()
                .unwrap(),
        );
        tokio::time::sleep(5 * MS).await;
    }
    assert!(
        due[0] == due[1] && due[1] < due[2],
        "a key moves once: {due:?}"
    );
    for _ in 0..2 {
        let (status, ended) = two.ask("DELETE", &job, "").await;
        assert_eq!((status, &ended["state"]), (200, &json!("cancelled")));
        assert_eq!(ended["due_ms"], due[2]);
    }
    let (status, late) = two.ask("PATCH", &job, json!({ "delay_ms": 5 })).await;
    assert_eq!((status, &late["error"]["code"]), (409, &json!("conflict")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_is_given_in_one_of_four_ways() {
    let (_scene, node) = Scene::served().await;
    for (way, due) in [
        (json!({ "delay_ms": 7_500_000 }), None),
        (json!({ "delay": "2h 5m" }), None),
        (
            json!({ "due_ms": 2_000_000_000_001_u64 }),
            Some(2_000_000_000_001),
        ),
        // Parts of a millisecond count as one.
        (
            json!({ "due": "2033-05-18T03:33:20.0005Z" }),
            Some(2_000_000_000_001),
        ),
        (
            json!({ "due": "2033-05-18t05:33:20.0005+02:00" }),
            Some(2_000_000_000_001),
        ),
        // A leap second is not the second before it.
        (
            json!({ "due": "2033-05-18T03:32:60.001-00:00" }),
            Some(2_000_000_000_001 - 20_000),
        ),
    ] {
        let job = node.job(&node.post("/v1/jobs", way).await["id"]).await;
        let created = job["created_ms"].as_u64().unwrap();
        assert_eq!(job["due_ms"], due.unwrap_or(created + 7_500_000));
    }
    let due = json!({ "due": "2033-05-18T05:33:20+02:00" });
    let many = node.post("/v1/jobs/batch", json!({ "jobs": [due] })).await;
    assert_eq!(many["jobs"][0]["due_ms"], 2_000_000_000_000_u64);
    let made = node.post("/v1/jobs", json!({ "delay": "1h" })).await;
    let path = format!("/v1/jobs/{}", made["id"].as_str().unwrap());
    let (status, moved) = node.ask("PATCH", &path, due).await;
    assert_eq!(
        (status, &moved["due_ms"]),
        (200, &json!(2_000_000_000_000_u64))
    );
    // Without a time it is due now.
    let made = node.post("/v1/jobs", json!({ "payload": 5 })).await;
    assert_eq!(node.take("").await[0]["id"], made["id"]);
    let job = node.job(&made["id"]).await;
    assert_eq!(job["due_ms"], job["created_ms"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_field_can_be_null_but_a_payload() {
    let (_scene, node) = Scene::served().await;
    let receipts = json!(["1-00c0ffee00c0ffee.1"]);
    let backoff = json!({ "kind": "fixed", "delay": "1s" });
    for (request, rest, fields) in [
        (
            "POST /v1/jobs",
            json!({}),
            "delay delay_ms due due_ms idempotency_key max_attempts backoff queue",
        ),
        (
            "PATCH /v1/jobs/1-00c0ffee00c0ffee",
            json!({}),
            "delay delay_ms due due_ms",
        ),
        (
            "PATCH /v1/jobs/1-00c0ffee00c0ffee",
            json!({ "delay": "1s" }),
            "delay_ms due due_ms idempotency_key",
        ),
        (
            "PUT /v1/schedules/tea",
            json!({ "cron": "0 9 * * *" }),
            "every timezone max_attempts backoff queue",
        ),
        (
            "POST /v1/deliveries/nack",
            json!({ "receipts": receipts }),
            "delay dead reason",
        ),
        (
            "PUT /v1/queues/mail",
            json!({ "concurrency": 5 }),
            "concurrency rate",
        ),
        ("POST /v1/dead/purge", json!({ "all": true }), "ids all"),
    ] {
        let (method, path) = request.split_once(' ').unwrap();
        for field in fields.split(' ') {
            let mut body = rest.clone();
            body[field] = Value::Null;
            let (status, answer) = node.ask(method, path, &body).await;
            let reason = answer["error"]["reason"].as_str().unwrap();
            assert_eq!(status, 400, "{request} {body}: {answer}");
            assert!(reason.contains("null"), "{request} {body}: {reason}");
            if path == "/v1/jobs" {
                let jobs = json!({ "jobs": [{ "delay": "1h" }, body] });
                let (status, answer) = node.ask("POST", "/v1/jobs/batch", jobs).await;
                assert_eq!(status, 400, "{field}: {answer}");
            }
        }
    }
    for field in ["longest", "jitter"] {
        let mut backoff = backoff.clone();
        backoff[field] = Value::Null;
        let body = json!({ "backoff": backoff });
        assert_eq!(node.ask("POST", "/v1/jobs", body).await.0, 400, "{field}");
    }
    assert_eq!(node.get("/v1/overview").await["pending"], 0);
    let made = node.post("/v1/jobs", json!({ "payload": null })).await;
    let taken = node.take("").await;
    assert_eq!(
        (&taken[0]["id"], &taken[0]["payload"]),
        (&made["id"], &Value::Null)
    );
}

/// Requests, the status of their refusal, and a part of its reason.
const REFUSED: &[(&str, &str, u16, &str)] = &[
    ("POST /v1/jobs", "", 400, "body"),
    ("POST /v1/jobs", "[]", 400, "an object"),
    ("POST /v1/jobs/batch", r#"{"jobs": [[]]}"#, 400, "an object"),
    (
        "POST /v1/jobs",
        r#"{"backoff": ["fixed", "1s"]}"#,
        400,
        "an object",
    ),
    (
        "PUT /v1/queues/mail",
        r#"{"rate": [1, "1s"]}"#,
        400,
        "an object",
    ),
    (
        "PATCH /v1/jobs/1-0000000000000000",
        "{}",
        400,
        "exactly one",
    ),
    (
        "POST /v1/jobs",
        r#"{"queue": "a b"}"#,
        400,
        "queue: a name has",
    ),
    (
        "POST /v1/jobs",
        r#"{"queue": ""}"#,
        400,
        "queue: a name has",
    ),
    ("GET /v1/jobs/7-00c0ffee00c0ffee-", "", 400, "is not the id"),
    ("GET /v1/jobs?queue=a.b", "", 400, "queue: a name has"),
    ("GET /v1/jobs?key=a&queue=mail", "", 400, "alone"),
    (
        "POST /v1/deliveries?queue=a.b",
        "",
        400,
        "queue: a name has",
    ),
    ("PUT /v1/queues/a.b", "{}", 400, "queue: a name has"),
    ("POST /v1/queues/a.b/pause", "", 400, "queue: a name has"),
    (
        "PUT /v1/queues/mail",
        r#"{"concurrency": 0}"#,
        400,
        "from 1 to 100000",
    ),
    (
        "PUT /v1/queues/mail",
        r#"{"rate": {"jobs": 1, "per": "2d"}}"#,
        400,
        "at most 24h",
    ),
    (
        "PUT /v1/queues/mail",
        r#"{"rate": {"jobs": 1, "per": "often"}}"#,
        400,
        "rate.per: not a duration",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "1s", "queue": "a b"}"#,
        400,
        "queue: a name has",
    ),
    (
        "POST /v1/jobs",
        r#"{"delay_ms": 1, "due_ms": 1}"#,
        400,
        "exactly one",
    ),
    ("POST /v1/jobs", r#"{"delay_ms": -1}"#, 400, "-1"),
    (
        "POST /v1/jobs",
        r#"{"delay_ms": 1, "dely": 2}"#,
        400,
        "dely",
    ),
    ("POST /v1/jobs", r#"{"delay": "soon"}"#, 400, "like 1500ms"),
    (
        "PATCH /v1/jobs/1-0000000000000000",
        r#"{"due": "2030-01-31T12:00:00"}"#,
        400,
        "12:00:00+02:00",
    ),
    (
        "POST /v1/jobs/batch",
        r#"{"jobs": [{"due": "2030-02-30T12:00:00Z"}]}"#,
        400,
        "jobs[0]: due: not a time",
    ),
    (
        "POST /v1/jobs",
        r#"{"due": "31.1.2030"}"#,
        400,
        "2030-01-31T12:00:00Z",
    ),
    (
        "POST /v1/jobs",
        r#"{"delay_ms": 18446744073709551615}"#,
        400,
        "ten years",
    ),
    (
        "POST /v1/jobs",
        r#"{"due_ms": 1763772000000000}"#,
        400,
        "in milliseconds?",
    ),
    (
        "POST /v1/jobs",
        r#"{"delay_ms": 1, "idempotency_key": ""}"#,
        400,
        "1 to 200",
    ),
    (
        "POST /v1/jobs",
        r#"{"delay_ms": 1, "max_attempts": 0}"#,
        400,
        "1 or more",
    ),
    ("POST /v1/jobs/batch", r#"{"jobs": []}"#, 400, "1 to 1000"),
    (
        "POST /v1/jobs/batch",
        r#"{"jobs": [{}, {"delay": "1s", "due_ms": 1}]}"#,
        400,
        "jobs[1]: give exactly one",
    ),
    ("GET /v1/jobs/7", "", 400, "is not the id"),
    ("GET /v1/jobs/01-00c0ffee00c0ffee", "", 400, "is not the id"),
    ("GET /v1/jobs/-1-00c0ffee00c0ffee", "", 400, "is not the id"),
    (
        "GET /v1/jobs/4096-00c0ffee00c0ffee",
        "",
        400,
        "is not the id",
    ),
    ("GET /v1/jobs/1-00C0ffee00c0ffee", "", 400, "is not the id"),
    ("GET /v1/jobs/1-0000000000000000", "", 404, "no job"),
    // A partition that the namespace does not have.
    ("DELETE /v1/jobs/9-0000000000000000", "", 404, "no job"),
    (
        "PATCH /v1/jobs/1-0000000000000000",
        r#"{"delay_ms":1}"#,
        404,
        "no job",
    ),
    ("GET /v1/jobs?limit=0", "", 400, "1 to 1000"),
    ("GET /v1/jobs?from=here", "", 400, "end of a page"),
    ("GET /v1/jobs?size=1", "", 400, "size"),
    ("GET /v1/jobs?state=done", "", 400, "unknown variant `done`"),
    ("GET /v1/jobs?state=x", "", 400, "state"),
    ("GET /v1/jobs?key=a&state=dead", "", 400, "alone"),
    ("PUT /v1/jobs", "", 405, "openapi.json"),
    ("GET /v1/jobs/batch", "", 405, "openapi.json"),
    ("GET /v1/jobs/%ff", "", 400, "UTF-8"),
    ("POST /v1/queues/%ff/pause", "", 400, "UTF-8"),
    ("DELETE /v1/schedules/%ff", "", 400, "UTF-8"),
    ("GET /v1/jobs/1/2", "", 404, "openapi.json"),
    ("POST /v1/deliveries?max=0", "", 400, "1 to 1000"),
    ("POST /v1/deliveries?wait=2h", "", 400, "at most 60s"),
    ("POST /v1/deliveries?hold=0s", "", 400, "at most 24h"),
    // Together just longer than any duration.
    (
        "POST /v1/deliveries?hold=5124095576030431h15s1000ms",
        "",
        400,
        "not a duration",
    ),
    ("POST /v1/deliveries?most=1", "", 400, "most"),
    (
        "POST /v1/deliveries/ack",
        r#"{"receipts": []}"#,
        400,
        "1 to 1000",
    ),
    (
        "POST /v1/deliveries/ack",
        r#"{"receipts": ["7"]}"#,
        400,
        "not a receipt",
    ),
    (
        "POST /v1/deliveries/ack",
        r#"{"receipts": ["7-00c0ffee00c0ffee.x"]}"#,
        400,
        "not a receipt",
    ),
    (
        "POST /v1/deliveries/ack",
        r#"{"receipts": ["7.1"]}"#,
        400,
        "is not the id",
    ),
    (
        "POST /v1/deliveries/nack",
        r#"{"receipts": ["7"], "retry": 1}"#,
        400,
        "retry",
    ),
    (
        "POST /v1/deliveries/extend",
        r#"{"receipts": ["7"]}"#,
        400,
        "hold",
    ),
    ("POST /v1/dead/requeue", "{}", 400, "give one of ids"),
    (
        "POST /v1/dead/purge",
        r#"{"ids": ["x"]}"#,
        400,
        "is not the id",
    ),
    (
        "PUT /v1/schedules/a%20b",
        r#"{"every": "1s"}"#,
        400,
        "letters, digits",
    ),
    ("PUT /v1/schedules/tea", "{}", 400, "either every"),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "1s", "cron": "* * * * *"}"#,
        400,
        "either every",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "1s", "timezone": "UTC"}"#,
        400,
        "either every",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "1ms"}"#,
        400,
        "100 ms or more",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "often"}"#,
        400,
        "every: not a duration",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"cron": "* * *"}"#,
        400,
        "such as `0 9",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"cron": "0 0 30 2 *"}"#,
        400,
        "never comes",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"cron": "* * * * *", "timezone": ""}"#,
        400,
        "Europe/Berlin",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"cron": "* * * * *", "timezone": "Mars"}"#,
        400,
        "Europe/Berlin",
    ),
    (
        "PUT /v1/schedules/tea",
        r#"{"every": "1s", "until": 3}"#,
        400,
        "until",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_a_reason() {
    let (_scene, node) = Scene::served().await;
    let big = json!({ "payload": "x".repeat(65 * 1024), "delay_ms": 1 }).to_string();
    let huge = json!({ "payload": "x".repeat(300 * 1024), "delay_ms": 1 }).to_string();
    let backoff = |kind: &str, delay: &str, jitter: f64| {
        let backoff = json!({ "kind": kind, "delay": delay, "jitter": jitter });
        json!({ "delay_ms": 1, "backoff": backoff }).to_string()
    };
    let deep = |levels: usize| {
        let payload = "[".repeat(levels) + &"]".repeat(levels);
        format!(r#"{{"payload": {payload}, "delay_ms": 60000}}"#)
    };
    let (deep, deepest) = (deep(101), deep(100));
    let long_key = json!({ "delay_ms": 1, "idempotency_key": "x".repeat(201) }).to_string();
    let more: [(&str, &str, u16, &str); 7] = [
        ("POST /v1/jobs", &deep, 400, "at most 100 levels"),
        ("POST /v1/jobs", &long_key, 400, "1 to 200"),
        ("POST /v1/jobs", &big, 413, "at most 65536"),
        ("POST /v1/jobs", &huge, 413, "256 KiB"),
        (
            "POST /v1/jobs",
            &backoff("linear", "1s", 0.5),
            400,
            "linear",
        ),
        (
            "POST /v1/jobs",
            &backoff("fixed", "x", 0.5),
            400,
            "backoff.delay",
        ),
        (
            "POST /v1/jobs",
            &backoff("exponential", "1s", 2.0),
            400,
            "jitter of 0 to 1",
        ),
    ];
    for (request, body, status, hint) in REFUSED.iter().copied().chain(more) {
        let (method, path) = request.split_once(' ').unwrap();
        let (got, answer) = node.ask(method, path, body).await;
        let reason = answer["error"]["reason"].as_str().unwrap_or("none");
        assert_eq!(got, status, "{request} {body:.80}: {answer}");
        assert!(reason.contains(hint), "{request} {body:.80}: {reason}");
    }
    let body = r#"{"delay_ms": 60000, "idempotency_key": "a"}"#;
    let with_key = |key: &str| {
        let request = reqwest::Client::new()
            .post(format!("{}/v1/jobs", node.address()))
            .body(body);
        let request = request.header("content-type", "application/json");
        request.header("idempotency-key", key).send()
    };
    assert_eq!(
        with_key("b").await.unwrap().status(),
        400,
        "header and body must agree"
    );
    assert_eq!(
        node.get("/v1/overview").await["pending"],
        0,
        "nothing of this was accepted"
    );
    assert_eq!(with_key("a").await.unwrap().status(), 201);
    node.post("/v1/jobs", deepest).await;
    let page = node.client().list(None, 10).await.unwrap();
    assert_eq!(page.jobs.len(), 2, "what is accepted can be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_does_the_same() {
    let (scene, node) = Scene::served().await;
    // The first address does not answer.
    let nodes = vec!["http://127.0.0.1:1".to_owned(), node.address().to_owned()];
    let client = Client::new(nodes, 5_000 * MS).unwrap();
    let create = |payload: Value| client.create(payload, When::After(HOUR), Some("k"));
    let made = create(json!([1, "two"])).await.unwrap();
    assert!(create(json!([1, "two"])).await.unwrap().repeated);
    let reused = create(json!(3)).await.unwrap_err();
    assert!(
        matches!(reused, ClientError::Refused { status: 409, .. }),
        "{reused}"
    );
    assert_eq!(
        client.get(&made.id).await.unwrap().payload.as_deref(),
        Some(r#"[1,"two"]"#)
    );
    assert_eq!(client.list(None, 10).await.unwrap().jobs.len(), 1);
    client
        .reschedule(&made.id, When::After(20 * MS))
        .await
        .unwrap();
    let ids = [made.id];
    assert_eq!(
        scene.collect(&ids).await[&ids[0]][0].payload,
        r#"[1,"two"]"#
    );
    assert!(client.cancel(&ids[0]).await.unwrap_err().is_too_late());
    assert_eq!(client.get(&ids[0]).await.unwrap().state, State::Done);
    until("the node has told of itself", async || {
        client
            .overview()
            .await
            .unwrap()
            .nodes
            .iter()
            .any(|one| one.address == node.address())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_names_every_route_and_its_answers() {
    let (_scene, node) = Scene::served().await;
    let text = node.get("/openapi.json").await;
    assert_eq!(text["openapi"], "3.1.0");
    let paths = text["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 23);
    for (path, methods) in paths {
        let url = path
            .replace("{queue}", "mail")
            .replace("{id}", "1-00000000000000aa")
            .replace("{name}", "nightly");
        for method in ["get", "put", "post", "delete", "patch"] {
            let (status, _) = node.ask(&method.to_uppercase(), &url, "").await;
            match methods.get(method) {
                None => assert_eq!(status, 405, "{method} {path} is not described"),
                Some(described) => {
                    let answer = &described["responses"][status.to_string()];
                    assert!(
                        answer["description"].is_string(),
                        "{method} {path}: {status}"
                    );
                }
            }
        }
    }
    // Whatever is referred to is there.
    let text = text.to_string();
    for name in text
        .split("#/components/schemas/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
    {
        assert!(text.contains(&format!("\"{name}\":{{")), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_waits_without_end_and_takes_addresses_with_a_slash() {
    let (_scene, node) = Scene::served().await;
    let client = Client::new(vec![format!("{}/", node.address())], Duration::MAX).unwrap();
    client.overview().await.unwrap();
    let queue = delayed_jobs::Queue::default();
    // The node waits for a minute at most.
    let refused = client.take(&[queue], 1, Duration::MAX, HOUR).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, ClientError::Refused { status: 400, .. }),
        "{refused}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_is_repeated_with_its_key_after_the_job_has_fired() {
    let (scene, node) = Scene::served().await;
    let id = scene.create(job("x", HOUR)).await;
    let path = format!("/v1/jobs/{id}");
    let body = json!({ "delay_ms": 0, "idempotency_key": "k" });
    let (status, moved) = node.ask("PATCH", &path, &body).await;
    assert_eq!(status, 200, "{moved}");
    until("it has fired", async || {
        scene.state(&id).await == State::Waiting
    })
    .await;
    assert_eq!(node.ask("PATCH", &path, &body).await, (200, moved));
    node.take("").await;
    let other = json!({ "delay_ms": 0, "idempotency_key": "other" });
    assert_eq!(node.ask("PATCH", &path, other).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_of_a_job_that_was_cancelled_since_is_refused_though_it_has_its_key() {
    let (scene, node) = Scene::served().await;
    let id = scene.create(job("x", HOUR)).await;
    let path = format!("/v1/jobs/{id}");
    let body = json!({ "delay": "2h", "idempotency_key": "k" });
    assert_eq!(node.ask("PATCH", &path, &body).await.0, 200);
    assert_eq!(node.ask("DELETE", &path, "").await.0, 200);
    let (status, answer) = node.ask("PATCH", &path, &body).await;
    assert_eq!(status, 409, "{answer}");
}

/// Says what a value has that its schema does not describe, or lacks.
fn differs(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return differs(root, root.pointer(&name[1..]).unwrap(), value);
    }
    if let Some(all) = schema["anyOf"].as_array() {
        let fits = all.iter().any(|one| differs(root, one, value).is_none());
        return (!fits).then(|| format!("{value} is none of {schema}"));
    }
    if let Some(all) = schema["enum"].as_array() {
        return (!all.contains(value)).then(|| format!("{value} is none of {schema}"));
    }
    let is = |kind: &Value| match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("what is {other}?"),
    };
    let has_kind = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if !has_kind {
        return Some(format!("{value} is not {schema}"));
    }
    if let (Some(values), Value::Object(_)) = (value.as_array(), &schema["items"]) {
        return values
            .iter()
            .find_map(|one| differs(root, &schema["items"], one));
    }
    let (Some(fields), Some(properties)) = (value.as_object(), schema["properties"].as_object())
    else {
        return None;
    };
    let required = schema["required"].as_array().map_or(&[][..], |names| names);
    let lacking = required
        .iter()
        .find(|name| !fields.contains_key(name.as_str().unwrap()));
    let lacking = lacking.map(|name| format!("no {name} in {value}"));
    lacking.or_else(|| {
        fields
            .iter()
            .find_map(|(name, field)| match properties.get(name) {
                Some(schema) => differs(root, schema, field),
                None => Some(format!("{name} is not described")),
            })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_as_they_are_described() {
    let (_scene, node) = Scene::served().await;
    let root = node.get("/openapi.json").await;
    let mut seen = std::collections::HashSet::new();
    let mut ask = async |method: &str, path: &str, named: &str, body: Value| -> Value {
        let (status, answer) = node.ask(method, path, &body).await;
        let described = &root["paths"][named][method.to_lowercase()];
        let content = &described["responses"][status.to_string()]["content"]["application/json"];
        let case = format!("{method} {path} {body}: {status} {answer}");
        assert!(content.is_object(), "not described: {case}");
        assert_eq!(differs(&root, &content["schema"], &answer), None, "{case}");
        if status < 300 {
            seen.insert(format!("{} {named}", method.to_lowercase()));
        }
        answer
    };
    let job = json!({ "payload": { "a": [1] }, "delay": "1h", "priority": 3, "queue": "mail",
        "idempotency_key": "k" });
    let made = ask("POST", "/v1/jobs", "/v1/jobs", job.clone()).await;
    ask("POST", "/v1/jobs", "/v1/jobs", job).await;
    ask("POST", "/v1/jobs", "/v1/jobs", json!({ "delay": 5 })).await;
    let path = format!("/v1/jobs/{}", made["id"].as_str().unwrap());
    ask("PATCH", &path, "/v1/jobs/{id}", json!({ "delay": "2h" })).await;
    ask("GET", &path, "/v1/jobs/{id}", json!({})).await;
    ask("DELETE", &path, "/v1/jobs/{id}", json!({})).await;
    ask("PATCH", &path, "/v1/jobs/{id}", json!({ "delay": "2h" })).await;
    let one = json!({ "delay": "0s", "max_attempts": 1 });
    let jobs = json!({ "jobs": [one, one, one, { "delay": "1h", "idempotency_key": "k" }] });
    ask("POST", "/v1/jobs/batch", "/v1/jobs/batch", jobs).await;
    let limits = json!({ "concurrency": 5, "rate": { "jobs": 9, "per": "1m" } });
    ask("PUT", "/v1/queues/mail", "/v1/queues/{queue}", limits).await;
    for what in ["pause", "resume"] {
        let path = |queue| format!("/v1/queues/{queue}/{what}");
        ask("POST", &path("mail"), &path("{queue}"), json!({})).await;
    }
    let tea = json!({ "every": "1h", "priority": 2 });
    let (schedule, named) = ("/v1/schedules/tea", "/v1/schedules/{name}");
    for method in ["PUT", "PUT", "GET"] {
        ask(method, schedule, named, tea.clone()).await;
    }
    let nothing = json!({});
    for (path, named) in [
        ("/v1/schedules", "/v1/schedules"),
        ("/v1/jobs?state=pending&limit=1", "/v1/jobs"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
    ] {
        ask("GET", path, named, nothing.clone()).await;
    }
    ask("DELETE", schedule, named, nothing.clone()).await;
    let mut receipts = Vec::new();
    while receipts.len() < 3 {
        let (path, named) = ("/v1/deliveries?wait=5s&max=3", "/v1/deliveries");
        let taken = ask("POST", path, named, nothing.clone()).await;
        let taken = taken["deliveries"].as_array().unwrap().clone();
        receipts.extend(taken.iter().map(|one| one["receipt"].clone()));
    }
    ask("GET", "/v1/overview", "/v1/overview", nothing.clone()).await;
    ask("GET", "/v1/queues", "/v1/queues", nothing.clone()).await;
    for (what, body) in [
        ("extend", json!({ "receipts": receipts, "hold": "1m" })),
        ("ack", json!({ "receipts": [receipts[0]] })),
        ("nack", json!({ "receipts": [receipts[0], receipts[1]] })),
        (
            "nack",
            json!({ "receipts": [receipts[2]], "dead": true, "reason": "x" }),
        ),
    ] {
        let path = format!("/v1/deliveries/{what}");
        ask("POST", &path, &path, body).await;
    }
    ask("GET", "/v1/dead", "/v1/dead", nothing.clone()).await;
    let cancel = "/v1/jobs/cancel";
    ask("POST", cancel, cancel, json!({ "queue": "mail" })).await;
    for path in ["/v1/dead/requeue", "/v1/dead/purge"] {
        ask("POST", path, path, json!({ "all": true })).await;
    }
    // All that answer in JSON were asked.
    for (path, operations) in root["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let answer = &operation["responses"]["200"]["content"]["application/json"];
            let is_asked = seen.contains(&format!("{method} {path}"));
            let is_json = answer.is_object() && path != "/openapi.json";
            assert!(is_asked || !is_json, "{method} {path} was not asked");
        }
    }
}

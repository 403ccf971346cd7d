//! Consumers over HTTP: by hand, by `consume --exec`, and the workers of `examples`.

use std::process::Stdio;
use std::time::Instant;

use delayed_jobs::local::NodeProcess;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::http::ask;
use crate::support::{MS, node, now_ms, redis, settings, until};

/// One node's interface.
pub(crate) struct Api<'a>(pub(crate) &'a NodeProcess);

impl Api<'_> {
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(method, &format!("{}{path}", self.0.address()), &body).await
    }

    /// A request that must be carried out.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What has fired, after at most 5 s.
    pub(crate) async fn take(&self, more: &str) -> Vec<Value> {
        let answer = self.post(&format!("/v1/deliveries?wait=5s&max=64{more}"), Value::Null).await;
        answer["deliveries"].as_array().unwrap().clone()
    }

    pub(crate) async fn state(&self, id: &Value) -> String {
        let job = self.get(&format!("/v1/jobs/{}", id.as_str().unwrap())).await;
        job["state"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_takes_acknowledges_fails_and_extends_over_http() {
    let redis = redis().await;
    let settings = settings(&redis);
    let (one, two) = (node(&settings).await, node(&settings).await);
    let (one, two) = (Api(&one), Api(&two));
    let asked = Instant::now();
    let waiting = two.take("");
    let create = async {
        tokio::time::sleep(300 * MS).await;
        let body = json!({ "payload": { "to": "x" }, "delay_ms": 400, "max_attempts": 2,
            "backoff": { "kind": "fixed", "delay": "50ms", "jitter": 0.0 } });
        one.post("/v1/jobs", body).await
    };
    let (taken, made) = tokio::join!(waiting, create);
    assert!(asked.elapsed() > 700 * MS && asked.elapsed() < 3_000 * MS, "{:?}", asked.elapsed());
    let first = &taken[0];
    assert_eq!(
        (taken.len(), &first["id"], &first["payload"]),
        (1, &made["id"], &json!({"to": "x"}))
    );
    assert_eq!((&first["attempt"], &first["max_attempts"]), (&json!(1), &json!(2)));
    assert!(first["fired_ms"].as_u64() >= made["due_ms"].as_u64());
    assert_eq!(one.state(&made["id"]).await, "fired");

    let body = json!({ "receipts": [first["receipt"]], "hold": "50s" });
    assert_eq!(two.post("/v1/deliveries/extend", body).await, json!({ "held": 1, "stale": [] }));
    let failed = json!({ "receipts": [first["receipt"]], "reason": "wrong number" });
    let answer = two.post("/v1/deliveries/nack", failed.clone()).await;
    let again = answer["again"][0]["due_ms"].as_u64().unwrap();
    assert!(again >= now_ms() - 1_000 && again <= now_ms() + 60, "{answer}");
    let stale = two.post("/v1/deliveries/nack", failed).await;
    assert_eq!(stale["stale"], json!([first["receipt"]]), "it has failed already");

    let second = one.take("").await.remove(0);
    assert_eq!((&second["id"], &second["attempt"]), (&made["id"], &json!(2)));
    let stale = one.post("/v1/deliveries/ack", json!({ "receipts": [first["receipt"]] })).await;
    assert_eq!(stale, json!({ "done": 0, "stale": [first["receipt"]] }), "an old receipt");
    let body = json!({ "receipts": [second["receipt"]], "reason": "no answer" });
    assert_eq!(one.post("/v1/deliveries/nack", body).await["dead"], json!([second["receipt"]]));
    let dead = two.get("/v1/dead").await;
    assert_eq!(
        (&dead["jobs"][0]["id"], &dead["jobs"][0]["reason"]),
        (&made["id"], &json!("no answer"))
    );
    let ids = json!({ "ids": [made["id"]] });
    assert_eq!(two.post("/v1/dead/requeue", ids.clone()).await, json!({ "requeued": 1 }));
    let third = one.take("").await.remove(0);
    let body = json!({ "receipts": [third["receipt"]] });
    assert_eq!(two.post("/v1/deliveries/ack", body).await, json!({ "done": 1, "stale": [] }));
    assert_eq!(one.state(&made["id"]).await, "done");
    assert_eq!(one.post("/v1/dead/purge", ids).await, json!({ "purged": 0 }));

    // A consumer that dies after it has taken: another one is given the job.
    one.post("/v1/jobs", json!({ "payload": 1, "delay_ms": 0 })).await;
    let lost = one.take("&hold=200ms").await.remove(0);
    let found = two.take("").await.remove(0);
    assert_eq!((&found["id"], &found["attempt"]), (&lost["id"], &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_accepted_and_ended_in_one_request_each() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    let mut jobs: Vec<Value> =
        (0..500).map(|n| json!({ "payload": n, "delay_ms": 20 + n % 7 })).collect();
    jobs.push(json!({ "payload": "a", "delay_ms": 20, "idempotency_key": "k" }));
    jobs.push(json!({ "payload": "a", "delay_ms": 20, "idempotency_key": "k" }));
    jobs.push(json!({ "payload": "b", "delay_ms": 20, "idempotency_key": "k" }));
    let made = api.post("/v1/jobs/batch", json!({ "jobs": jobs })).await;
    let made = made["jobs"].as_array().unwrap();
    assert_eq!((made.len(), &made[501]["id"]), (503, &made[500]["id"]));
    assert_eq!((&made[500]["repeated"], &made[501]["repeated"]), (&json!(false), &json!(true)));
    assert_eq!(made[502]["error"]["code"], "conflict");
    let (mut receipts, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < 501 {
        let taken = api.take("").await;
        assert!(!taken.is_empty() && taken.len() <= 64);
        seen.extend(taken.iter().map(|one| one["payload"].to_string()));
        receipts.extend(taken.into_iter().map(|one| one["receipt"].clone()));
    }
    let done = api.post("/v1/deliveries/ack", json!({ "receipts": receipts })).await;
    assert_eq!(done, json!({ "done": 501, "stale": [] }));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 501, "each job came once");

    let wrong = json!({ "jobs": [{ "delay_ms": 1 }, { "delay": "soon" }] });
    let (status, answer) = api.ask("POST", "/v1/jobs/batch", &wrong).await;
    let reason = answer["error"]["reason"].as_str().unwrap();
    assert!(status == 400 && reason.starts_with("jobs[1]: delay: not a duration"), "{reason}");
    assert_eq!(api.get("/v1/overview").await["pending"], 0, "nothing of this was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_of_consumers_are_refused_with_a_reason() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    let job = |more: Value| {
        let mut job = json!({ "delay_ms": 1 });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    for (path, body, hint) in [
        ("/v1/deliveries?max=0", Value::Null, "1 to 1000"),
        ("/v1/deliveries?wait=2h", Value::Null, "at most 60s"),
        ("/v1/deliveries?wait=soon", Value::Null, "wait: not a duration"),
        ("/v1/deliveries?hold=0s", Value::Null, "at most 24h"),
        ("/v1/deliveries?most=1", Value::Null, "most"),
        ("/v1/deliveries/ack", Value::Null, "body"),
        ("/v1/deliveries/ack", json!({ "receipts": [] }), "1 to 1000"),
        ("/v1/deliveries/ack", json!({ "receipts": ["7"] }), "not a receipt"),
        ("/v1/deliveries/nack", json!({ "receipts": ["7"], "retry": 1 }), "retry"),
        ("/v1/deliveries/extend", json!({ "receipts": ["7"] }), "hold"),
        ("/v1/dead/requeue", json!({}), "either ids"),
        ("/v1/dead/purge", json!({ "ids": ["x"] }), "is not the id"),
        ("/v1/jobs", job(json!({ "max_attempts": 0 })), "1 or more"),
        ("/v1/jobs", job(json!({ "backoff": { "kind": "linear", "delay": "1s" } })), "linear"),
        ("/v1/jobs", job(json!({ "backoff": { "kind": "fixed", "delay": "x" } })), "backoff.delay"),
        (
            "/v1/jobs",
            job(json!({ "backoff": { "kind": "exponential", "delay": "1s", "jitter": 2.0 } })),
            "jitter of 0 to 1",
        ),
    ] {
        let (status, answer) = api.ask("POST", path, &body).await;
        let reason = answer["error"]["reason"].as_str().unwrap_or("none");
        assert!(status == 400 && reason.contains(hint), "{path} {body}: {status} {answer}");
    }
    let nobody = json!({ "receipts": ["1-0000000000000000.1", "999-0000000000000000.1"] });
    assert_eq!(api.post("/v1/deliveries/ack", nobody).await["done"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_answers_those_that_wait() {
    let redis = redis().await;
    let mut node = node(&settings(&redis)).await;
    let url = format!("{}/v1/deliveries?wait=50s", node.address());
    let waiting = tokio::spawn(async move { ask("POST", &url, "").await });
    tokio::time::sleep(500 * MS).await;
    let asked = Instant::now();
    assert!(node.end().await.unwrap().success());
    assert_eq!(waiting.await.unwrap(), (200, json!({ "deliveries": [] })));
    assert!(asked.elapsed() < 5_000 * MS, "{:?}", asked.elapsed());
}

/// Makes a job that works and one that never does, and waits until a worker has dealt with both.
async fn dealt_with(api: &Api<'_>) {
    let retry = json!({ "kind": "fixed", "delay": "20ms" });
    let body = |payload: &str| json!({ "payload": payload, "delay_ms": 10, "max_attempts": 2, "backoff": retry });
    let good = api.post("/v1/jobs", body("good")).await;
    let poison = api.post("/v1/jobs", body("poison")).await;
    until("one is done and the other one dead", 30_000 * MS, || async {
        api.state(&good["id"]).await == "done" && api.state(&poison["id"]).await == "dead"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_for_each_job() {
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let api = Api(&node);
    let folder = tempfile::tempdir().unwrap();
    let command = r#"read payload
        echo "$JOB_ID $JOB_ATTEMPT of $JOB_MAX_ATTEMPTS $payload" >> told
        case $payload in *poison*) echo "cannot digest" >&2; exit 3;; *long*) sleep 3;; esac"#;
    let _worker = Command::new(env!("CARGO_BIN_EXE_delayed-jobs"))
        .args(["consume", "--node", node.address(), "--hold", "1s", "--concurrency", "3"])
        .args(["--exec", command])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let long = api.post("/v1/jobs", json!({ "payload": "long", "delay_ms": 0 })).await;
    dealt_with(&api).await;
    let dead = api.get("/v1/dead").await;
    let reason = dead["jobs"][0]["reason"].as_str().unwrap();
    assert_eq!(reason, "exit status: 3: cannot digest");
    until("the long one is done", 10_000 * MS, || async { api.state(&long["id"]).await == "done" })
        .await;
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    let attempts = |of: &str| told.lines().filter(|line| line.contains(of)).count();
    assert_eq!((attempts("poison"), attempts("2 of 2")), (2, 1), "{told}");
    assert_eq!(attempts("long"), 1, "it was held for as long as the command ran: {told}");
}

fn example(program: &str, file: &str, node: &NodeProcess) -> Child {
    Command::new(program)
        .arg(format!("{}/examples/{file}", env!("CARGO_MANIFEST_DIR")))
        .arg(node.address())
        .stdout(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn works(program: &str, args: &[&str]) -> bool {
    let output = Command::new(program).args(args).output().await;
    output.is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_python_works() {
    if !works("python3", &["-c", "import requests"]).await {
        eprintln!("SKIPPED: the worker in Python, which needs python3 with `requests`");
        return;
    }
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let _worker = example("python3", "worker.py", &node);
    dealt_with(&Api(&node)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_shell_works() {
    if !works("jq", &["--version"]).await || !works("curl", &["--version"]).await {
        eprintln!("SKIPPED: the worker in shell, which needs `curl` and `jq`");
        return;
    }
    let redis = redis().await;
    let node = node(&settings(&redis)).await;
    let _worker = example("bash", "worker.sh", &node);
    dealt_with(&Api(&node)).await;
}

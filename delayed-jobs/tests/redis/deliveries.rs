//! Consumers over HTTP: by hand, by `consume --exec`, and the workers of `examples`.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
#[cfg(target_os = "linux")]
use nix::sys::signal::{Signal, kill};
#[cfg(target_os = "linux")]
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::{Api, MS, PROGRAM, Scene, now_ms, patient, say, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_takes_acknowledges_fails_and_extends_over_http() {
    let scene = Scene::new().await;
    let (one, two) = (scene.node().await, scene.node().await);
    let asked = Instant::now();
    let create = async {
        tokio::time::sleep(300 * MS).await;
        let body = json!({ "payload": { "to": "x" }, "delay_ms": 400, "max_attempts": 2,
            "backoff": { "kind": "fixed", "delay": "50ms", "jitter": 0.0 } });
        one.post("/v1/jobs", body).await
    };
    let (taken, made) = tokio::join!(two.take(""), create);
    assert!(
        asked.elapsed() > 700 * MS && asked.elapsed() < 3_000 * MS,
        "{:?}",
        asked.elapsed()
    );
    let [first] = &taken[..] else {
        panic!("{taken:?}")
    };
    assert_eq!(
        (&first["id"], &first["payload"]),
        (&made["id"], &json!({"to": "x"}))
    );
    assert_eq!(
        (&first["attempt"], &first["max_attempts"]),
        (&json!(1), &json!(2))
    );
    assert!(first["fired_ms"].as_u64() >= made["due_ms"].as_u64());
    assert!(one.has_state(&made["id"], "running").await);

    let body = json!({ "receipts": [first["receipt"]], "hold": "50s" });
    assert_eq!(
        two.post("/v1/deliveries/extend", body).await,
        json!({ "held": 1, "stale": [], "cancelled": [] })
    );
    let failed = json!({ "receipts": [first["receipt"]], "reason": "wrong number" });
    let answer = two.post("/v1/deliveries/nack", &failed).await;
    let again = answer["again"][0]["due_ms"].as_u64().unwrap();
    assert!(
        again >= now_ms() - 1_000 && again <= now_ms() + 60,
        "{answer}"
    );
    let stale = two.post("/v1/deliveries/nack", failed).await;
    assert_eq!(
        stale["stale"],
        json!([first["receipt"]]),
        "it has failed already"
    );

    let second = one.take("").await.remove(0);
    assert_eq!(
        (&second["id"], &second["attempt"]),
        (&made["id"], &json!(2))
    );
    let stale = one
        .post(
            "/v1/deliveries/ack",
            json!({ "receipts": [first["receipt"]] }),
        )
        .await;
    assert_eq!(
        stale,
        json!({ "done": 0, "stale": [first["receipt"]] }),
        "an old receipt"
    );
    let body = json!({ "receipts": [second["receipt"]], "reason": "no answer" });
    assert_eq!(
        one.post("/v1/deliveries/nack", body).await["dead"],
        json!([second["receipt"]])
    );
    let dead = &two.get("/v1/dead").await["jobs"][0];
    assert_eq!(
        (&dead["id"], &dead["reason"]),
        (&made["id"], &json!("no answer"))
    );
    let ids = json!({ "ids": [made["id"]] });
    assert_eq!(
        two.post("/v1/dead/requeue", &ids).await,
        json!({ "requeued": 1 })
    );
    let third = one.take("").await.remove(0);
    let body = json!({ "receipts": [third["receipt"]] });
    assert_eq!(
        two.post("/v1/deliveries/ack", body).await,
        json!({ "done": 1, "stale": [] })
    );
    assert!(one.has_state(&made["id"], "done").await);
    assert_eq!(
        one.post("/v1/dead/purge", ids).await,
        json!({ "purged": 0 })
    );
    let nobody = json!({ "receipts": ["1-0000000000000000.1", "999-0000000000000000.1"] });
    assert_eq!(one.post("/v1/deliveries/ack", nobody).await["done"], 0);

    // A consumer that dies after it has taken: another one is given the job.
    one.post("/v1/jobs", json!({ "payload": 1, "delay_ms": 0 }))
        .await;
    let lost = one.take("&hold=200ms").await.remove(0);
    let found = two.take("").await.remove(0);
    assert_eq!((&found["id"], &found["attempt"]), (&lost["id"], &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_has_ended_is_not_extended() {
    let (scene, node) = Scene::served().await;
    let limits = delayed_jobs::Limits {
        concurrency: Some(1),
        rate: None,
    };
    let queue = delayed_jobs::Queue::default();
    scene.store.set_limits(&queue, &limits).await.unwrap();
    node.post("/v1/jobs", json!({ "payload": 1 })).await;
    let first = &node.take("&hold=50ms").await[0];
    tokio::time::sleep(100 * MS).await;
    // Its permit is free for another job, though nobody has asked for one yet.
    let late = json!({ "receipts": [first["receipt"]], "hold": "1m" });
    let answer = node.post("/v1/deliveries/extend", late).await;
    assert_eq!(answer["stale"], json!([first["receipt"]]));
    let again = &node.take("").await[0];
    assert_eq!((&again["id"], &again["attempt"]), (&first["id"], &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_are_accepted_and_ended_in_one_request_each() {
    let (_scene, api) = Scene::served().await;
    let mut jobs: Vec<Value> = (0..500)
        .map(|n| json!({ "payload": n, "delay_ms": 20 + n % 7 }))
        .collect();
    for payload in ["a", "a", "b"] {
        jobs.push(json!({ "payload": payload, "delay_ms": 20, "idempotency_key": "k" }));
    }
    let made = api.post("/v1/jobs/batch", json!({ "jobs": jobs })).await;
    let made = made["jobs"].as_array().unwrap();
    assert_eq!((made.len(), &made[501]["id"]), (503, &made[500]["id"]));
    assert_eq!(
        (&made[500]["repeated"], &made[501]["repeated"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(made[502]["error"]["code"], "conflict");
    let (mut receipts, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < 501 {
        let taken = api.take("").await;
        assert!(!taken.is_empty() && taken.len() <= 64);
        seen.extend(taken.iter().map(|one| one["payload"].to_string()));
        receipts.extend(taken.into_iter().map(|one| one["receipt"].clone()));
    }
    let done = api
        .post("/v1/deliveries/ack", json!({ "receipts": receipts }))
        .await;
    assert_eq!(done, json!({ "done": 501, "stale": [] }));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 501, "each job came once");
}

/// Makes a job that works and one that never does, and waits until a worker has dealt with both.
async fn dealt_with(api: &Api) {
    let body = |payload: &str| {
        let backoff = json!({ "kind": "fixed", "delay": "20ms" });
        json!({ "payload": payload, "delay_ms": 10, "max_attempts": 2, "backoff": backoff })
    };
    let good = &api.post("/v1/jobs", body("good")).await["id"];
    let poison = &api.post("/v1/jobs", body("poison")).await["id"];
    until("one is done and the other one dead", async || {
        api.has_state(good, "done").await && api.has_state(poison, "dead").await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_run_for_each_job() {
    let (_scene, api) = Scene::served().await;
    let folder = tempfile::tempdir().unwrap();
    let command = r#"read payload
        echo "$JOB_ID $JOB_ATTEMPT of $JOB_MAX_ATTEMPTS $payload" >> told
        case $payload in *poison*) echo "cannot digest" >&2; exit 3;; *long*) sleep 3;; esac"#;
    let _worker = Command::new(PROGRAM)
        .args([
            "consume",
            "--node",
            api.address(),
            "--hold",
            "1s",
            "--concurrency",
            "3",
        ])
        .args(["--exec", command])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let long = &api
        .post("/v1/jobs", json!({ "payload": "long", "delay_ms": 0 }))
        .await["id"];
    dealt_with(&api).await;
    let dead = api.get("/v1/dead").await;
    assert_eq!(dead["jobs"][0]["reason"], "exit status: 3: cannot digest");
    until("the long one is done", async || {
        api.has_state(long, "done").await
    })
    .await;
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    let attempts = |of: &str| told.lines().filter(|line| line.contains(of)).count();
    assert_eq!((attempts("poison"), attempts("2 of 2")), (2, 1), "{told}");
    assert_eq!(
        attempts("long"),
        1,
        "it was held for as long as the command ran: {told}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_runs_for_too_long_ends_with_all_that_it_has_begun() {
    let (_scene, api) = Scene::served().await;
    let folder = tempfile::tempdir().unwrap();
    let _worker = Command::new(PROGRAM)
        .args(["consume", "--node", api.address(), "--timeout", "500ms"])
        .args([
            "--exec",
            "echo begun > told; (sleep 2; echo alive > told) | cat",
        ])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let job = json!({ "payload": 1, "max_attempts": 1 });
    let id = &api.post("/v1/jobs", job).await["id"];
    until("it is dead", async || api.has_state(id, "dead").await).await;
    tokio::time::sleep(2_500 * MS).await;
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "begun\n", "its next attempt would run beside it");
}

/// A proxy before a node: it answers with a status of its own, unless that is 0.
async fn stand_before(
    State((node, own)): State<(Arc<String>, Arc<AtomicU16>)>,
    request: Request,
) -> Response {
    let own = own.load(Ordering::SeqCst);
    if own != 0 {
        return (StatusCode::from_u16(own).unwrap(), "<html>not now</html>").into_response();
    }
    let path = request.uri().path_and_query().unwrap().to_string();
    let body = Bytes::from_request(request, &()).await.unwrap();
    let asked = reqwest::Client::new().post(format!("{node}{path}"));
    let asked = asked.header("content-type", "application/json").body(body);
    let answer = asked.send().await.unwrap();
    let status = answer.status();
    (status, answer.text().await.unwrap()).into_response()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_goes_on_when_a_proxy_refuses_and_tells_the_outcome_later() {
    let (_scene, node) = Scene::served_with(patient).await;
    let own = Arc::new(AtomicU16::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let state = (Arc::new(node.address().to_owned()), Arc::clone(&own));
    let router = Router::new().fallback(stand_before).with_state(state);
    tokio::spawn(axum::serve(listener, router).into_future());
    let folder = tempfile::tempdir().unwrap();
    let (begun, go) = (folder.path().join("begun"), folder.path().join("go"));
    let command = "echo >> begun; while ! [ -e go ]; do sleep 0.05; done";
    let mut worker = Command::new(PROGRAM)
        .args([
            "consume", "--node", &proxy, "--hold", "5m", "--exec", command,
        ])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = &node.post("/v1/jobs", json!({ "payload": 1 })).await["id"];
    until("the command runs", async || begun.exists()).await;
    own.store(401, Ordering::SeqCst);
    std::fs::write(go, "").unwrap();
    // Longer than one request is tried.
    for status in [401, 403, 404, 413, 302] {
        own.store(status, Ordering::SeqCst);
        tokio::time::sleep(2_500 * MS).await;
    }
    assert!(node.has_state(id, "running").await);
    own.store(0, Ordering::SeqCst);
    until("the outcome is told", async || {
        node.has_state(id, "done").await
    })
    .await;
    assert_eq!(std::fs::read_to_string(begun).unwrap(), "\n");
    assert!(worker.try_wait().unwrap().is_none(), "it goes on");
    // What the node itself refuses ends it.
    let mut refused = Command::new(PROGRAM)
        .args(["consume", "--node", &format!("{}/none", node.address())])
        .args(["--exec", "true"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended = tokio::time::timeout(30_000 * MS, refused.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(2));
}

/// The states of the processes that `first` has begun, by the letters that the system has for them.
#[cfg(target_os = "linux")]
fn states_of_children(first: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
    let state = |id: &str| {
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some(status.rsplit(") ").next()?.split(' ').next()?.to_owned())
    };
    let children = children.unwrap_or_default();
    children.split_whitespace().filter_map(state).collect()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_the_first_process_leaves_no_zombies() {
    let apart = ["--pid", "--fork", "--kill-child"];
    let may = Command::new("unshare").args(apart).arg("true").output();
    if !may.await.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: a first process, which `unshare --pid` makes");
        return;
    }
    let (_scene, node) = Scene::served_with(patient).await;
    let mut unshare = Command::new("unshare")
        .args(apart)
        .args([PROGRAM, "consume", "--node", node.address()])
        // The shell ends before what it has begun.
        .args(["--exec", "sleep 0.1 > /dev/null 2>&1 &"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    for _ in 0..3 {
        let id = &node.post("/v1/jobs", json!({ "payload": 1 })).await["id"];
        until("it is done", async || node.has_state(id, "done").await).await;
    }
    tokio::time::sleep(500 * MS).await;
    let parent = unshare.id().unwrap();
    let first = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let first = first.unwrap().trim().parse().unwrap();
    until("all but the consumer have been waited for", async || {
        let states = states_of_children(first);
        states.len() == 1 && states[0] != "Z"
    })
    .await;
    // A signal reaches the consumer, and its end is that of the first process.
    kill(
        Pid::from_raw(i32::try_from(first).unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    let ended = tokio::time::timeout(60_000 * MS, unshare.wait()).await;
    assert_eq!(ended.unwrap().unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_whose_node_is_no_url_says_so_and_ends() {
    for node in ["localhost:8080", "nonsense"] {
        let mut worker = Command::new(PROGRAM);
        worker.args(["consume", "--node", node, "--exec", "true"]);
        let output = worker.kill_on_drop(true).output();
        let output = tokio::time::timeout(20_000 * MS, output).await;
        let output = output.expect("a refusal").unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("not a URL of http"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_counts_also_if_a_command_leaves_processes_behind() {
    let (_scene, api) = Scene::served().await;
    let _worker = Command::new(PROGRAM)
        .args(["consume", "--node", api.address(), "--timeout", "5s"])
        .args([
            "--exec",
            "sleep 20 & grep -q good || { echo bad >&2; exit 3; }",
        ])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let made = async |payload: &str| {
        let job = json!({ "payload": payload, "max_attempts": 1 });
        api.post("/v1/jobs", job).await["id"].clone()
    };
    let (good, bad) = (made("good").await, made("bad").await);
    until("both have ended", async || {
        api.has_state(&good, "done").await && api.has_state(&bad, "dead").await
    })
    .await;
    assert_eq!(api.job(&bad).await["reason"], "exit status: 3: bad");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workers_in_python_and_shell_work() {
    for (program, file, needs) in [
        ("python3", "worker.py", "python3 -c 'import requests'"),
        ("bash", "worker.sh", "jq --version && curl --version"),
    ] {
        let has = Command::new("sh")
            .args(["-c", needs])
            .stdout(Stdio::null())
            .status()
            .await;
        if !has.unwrap().success() {
            eprintln!("SKIPPED: {file}, which needs what `{needs}` asks for");
            continue;
        }
        let (_scene, node) = Scene::served().await;
        let _worker = Command::new(program)
            .arg(format!("{}/examples/{file}", env!("CARGO_MANIFEST_DIR")))
            .arg(node.address())
            .stdout(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        dealt_with(&node).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_shell_kills_the_work_for_a_job_that_is_cancelled() {
    let (_scene, node) = Scene::served().await;
    let folder = tempfile::tempdir().unwrap();
    let script = include_str!("../../examples/worker.sh");
    let work =
        "payload=$(cat)\n  [[ $payload != '\"slow\"' ]] || { echo $BASHPID > begun; sleep 60; }";
    let script = script.replace("payload=$(cat)", work);
    std::fs::write(folder.path().join("worker.sh"), script).unwrap();
    let mut worker = Command::new("bash")
        .args(["worker.sh", node.address()])
        .env("HOLD", "9")
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let slow = &node.post("/v1/jobs", json!({ "payload": "slow" })).await["id"];
    until("the work has begun", async || {
        folder.path().join("begun").exists()
    })
    .await;
    // It is held for longer than it was taken for.
    tokio::time::sleep(11_000 * MS).await;
    assert!(node.has_state(slow, "running").await);
    assert_eq!(node.job(slow).await["attempts"], 1);
    let path = format!("/v1/jobs/{}", slow.as_str().unwrap());
    node.ask("DELETE", &path, "").await;
    let said = lines.next_line().await.unwrap().unwrap();
    assert_eq!(said, format!("cancelled {}", slow.as_str().unwrap()));
    // The worker goes on with the next one.
    let next = &node.post("/v1/jobs", json!({ "payload": "go" })).await["id"];
    until("the next one is done", async || {
        node.has_state(next, "done").await
    })
    .await;
    let process = std::fs::read_to_string(folder.path().join("begun")).unwrap();
    assert!(!Path::new("/proc").join(process.trim()).exists());
    assert!(node.has_state(slow, "cancelled").await);
}

/// `worker.py` with jobs of which the first one goes on until a file is there, and with short holds.
const SLOW_WORKER: &str = "
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
import worker
worker.HOLD = 1
def handle(job):
    while job['payload'] and not os.path.exists(job['payload']):
        time.sleep(0.05)
    print('done', job['id'], flush=True)
worker.handle = handle
worker.main()
";

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_python_leaves_out_jobs_of_its_batch_that_are_cancelled() {
    let needs = ["-c", "import requests"];
    let has = Command::new("python3")
        .args(needs)
        .stderr(Stdio::null())
        .status();
    if !has.await.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: worker.py, which needs python3 with `requests`");
        return;
    }
    let (_scene, node) = Scene::served_with(|settings| settings.partitions = 1).await;
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("goal");
    let jobs = json!({ "jobs": [{ "payload": goal, "priority": 9 }, { "payload": "" }] });
    let made = node.post("/v1/jobs/batch", jobs).await;
    let (first, second) = (&made["jobs"][0]["id"], &made["jobs"][1]["id"]);
    until("both wait", async || {
        node.get("/v1/overview").await["waiting"] == 2
    })
    .await;
    let mut worker = Command::new("python3")
        .args(["-c", SLOW_WORKER])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"))
        .arg(node.address())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    until("both run", async || {
        node.get("/v1/overview").await["running"] == 2
    })
    .await;
    let path = format!("/v1/jobs/{}", second.as_str().unwrap());
    node.ask("DELETE", &path, "").await;
    // The worker has heard of it by its next extension.
    tokio::time::sleep(1_000 * MS).await;
    std::fs::write(goal, "").unwrap();
    let mut said = Vec::new();
    for _ in 0..2 {
        said.push(lines.next_line().await.unwrap().unwrap());
    }
    let of = |word: &str, id: &Value| format!("{word} {}", id.as_str().unwrap());
    assert_eq!(said, [of("done", first), of("cancelled", second)]);
}

/// `worker.py` with a job that goes on until a file is there.
const WAITING_WORKER: &str = "
import os, sys, time
sys.path.insert(0, sys.argv.pop(1))
import worker
worker.HOLD = 18
def handle(job):
    while not os.path.exists(job['payload']):
        time.sleep(0.05)
worker.handle = handle
worker.main()
";

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_in_python_holds_its_job_over_a_restart_of_the_node() {
    let needs = ["-c", "import requests"];
    let has = Command::new("python3")
        .args(needs)
        .stderr(Stdio::null())
        .status();
    if !has.await.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: worker.py, which needs python3 with `requests`");
        return;
    }
    let (scene, mut node) = Scene::served().await;
    let (folder, address) = (tempfile::tempdir().unwrap(), node.address().to_owned());
    let goal = folder.path().join("goal");
    let made = node.post("/v1/jobs", json!({ "payload": goal })).await;
    let mut worker = Command::new("python3")
        .args(["-c", WAITING_WORKER])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples"))
        .arg(&address)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until("the worker has it", async || {
        node.job(&made["id"]).await["attempts"] == 1
    })
    .await;
    let id: delayed_jobs::JobId = made["id"].as_str().unwrap().parse().unwrap();
    let end = async || -> f64 {
        let key = format!("jobs:{{{}}}:held", id.partition());
        say(&scene.redis, &format!("ZSCORE {key} {id}")).await
    };
    let first = end().await;
    node.kill().await;
    let mut lines = BufReader::new(worker.stderr.take().unwrap()).lines();
    let failed = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.starts_with("extend not told") {
                return;
            }
        }
        panic!("the worker has ended");
    };
    tokio::time::timeout(60_000 * MS, failed).await.unwrap();
    node = scene.node_at(address.trim_start_matches("http://")).await;
    until("the hold is extended after all", async || {
        end().await > first
    })
    .await;
    std::fs::write(goal, "").unwrap();
    until("it is done", async || {
        node.has_state(&made["id"], "done").await
    })
    .await;
    let job = node.job(&made["id"]).await;
    assert_eq!(job["attempts"], 1, "nobody else was given it");
}

//! Jobs that have fired are cancelled, moved and emptied.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Api, MS, PROGRAM, Scene, patient, until};

/// Makes a job of a queue that is due now, and waits until it has fired.
async fn fired(node: &Api, queue: &str) -> String {
    let job = json!({ "queue": queue, "payload": queue, "priority": 3 });
    let made = node.post("/v1/jobs", job).await;
    until("it has fired", async || {
        node.has_state(&made["id"], "waiting").await
    })
    .await;
    made["id"].as_str().unwrap().to_owned()
}

/// The counts of a queue: pending, waiting, running.
async fn counts(node: &Api, queue: &str) -> (u64, u64, u64) {
    let queues = node.get("/v1/queues").await;
    let found = queues["queues"].as_array().unwrap().clone();
    let found = found.into_iter().find(|one| one["queue"] == queue);
    let count = |name| found.as_ref().map_or(0, |one| one[name].as_u64().unwrap());
    (count("pending"), count("waiting"), count("running"))
}

async fn take(node: &Api, queue: &str) -> Vec<Value> {
    let path = format!("/v1/deliveries?max=64&queue={queue}");
    let answer = node.post(&path, "").await;
    answer["deliveries"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_a_consumer_is_cancelled_and_never_comes() {
    let (_scene, node) = Scene::served_with(patient).await;
    let (one, other) = (fired(&node, "mail").await, fired(&node, "mail").await);
    let path = format!("/v1/jobs/{one}");
    for _ in 0..2 {
        let (status, answer) = node.ask("DELETE", &path, "").await;
        assert_eq!((status, &answer["state"]), (200, &json!("cancelled")));
        assert_eq!(answer.get("running"), None, "no consumer held it");
    }
    assert_eq!(counts(&node, "mail").await, (0, 1, 0));
    let taken = take(&node, "mail").await;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0]["id"], other);
    assert_eq!(node.metric("orphans_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_for_a_consumer_is_moved_to_a_later_time() {
    let (_scene, node) = Scene::served_with(patient).await;
    let id = fired(&node, "mail").await;
    let path = format!("/v1/jobs/{id}");
    let (status, answer) = node.ask("PATCH", &path, json!({ "delay": "1h" })).await;
    assert_eq!((status, &answer["state"]), (200, &json!("pending")));
    assert_eq!(counts(&node, "mail").await, (1, 0, 0));
    assert_eq!(take(&node, "mail").await, [json!(null); 0]);
    let (status, _) = node.ask("PATCH", &path, json!({ "delay": "0s" })).await;
    assert_eq!(status, 200);
    let taken = node.take("&queue=mail").await;
    assert_eq!(
        (&taken[0]["id"], &taken[0]["attempt"]),
        (&json!(id), &json!(1))
    );
    // A consumer has it now.
    let (status, _) = node.ask("PATCH", &path, json!({ "delay": "1h" })).await;
    assert_eq!(status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_consumer_of_a_cancelled_job_hears_of_it_when_it_extends_its_hold() {
    let (_scene, node) = Scene::served_with(patient).await;
    let limits = json!({ "concurrency": 1 });
    node.ask("PUT", "/v1/queues/mail", limits).await;
    let id = fired(&node, "mail").await;
    let first = node.take("&queue=mail").await.remove(0);
    let path = format!("/v1/jobs/{id}");
    for _ in 0..2 {
        let (status, answer) = node.ask("DELETE", &path, "").await;
        assert_eq!((status, &answer["running"]), (200, &json!(true)));
    }
    assert_eq!(node.job(&json!(id)).await.get("held_until_ms"), None);
    let receipts = json!([first["receipt"]]);
    let told = json!({ "held": 0, "stale": receipts, "cancelled": receipts });
    let body = json!({ "receipts": receipts, "hold": "1m" });
    assert_eq!(node.post("/v1/deliveries/extend", &body).await, told);
    let ended = json!({ "receipts": receipts });
    let ended = node.post("/v1/deliveries/ack", ended).await;
    assert_eq!(ended, json!({ "done": 0, "stale": receipts }));
    assert!(node.has_state(&json!(id), "cancelled").await);
    // Its permit is free.
    fired(&node, "mail").await;
    assert_eq!(node.take("&queue=mail").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_job_is_cancelled_is_killed() {
    let (_scene, node) = Scene::served_with(patient).await;
    let folder = tempfile::tempdir().unwrap();
    let (begun, told) = (folder.path().join("begun"), folder.path().join("told"));
    let _worker = Command::new(PROGRAM)
        .args(["consume", "--node", node.address(), "--hold", "1s"])
        .args([
            "--exec",
            "grep -q go || { touch begun; sleep 3; touch told; }",
        ])
        .current_dir(folder.path())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let id = &node.post("/v1/jobs", json!({ "payload": 1 })).await["id"];
    until("the command runs", async || begun.exists()).await;
    let path = format!("/v1/jobs/{}", id.as_str().unwrap());
    node.ask("DELETE", &path, "").await;
    // The worker goes on with the next one.
    let next = &node.post("/v1/jobs", json!({ "payload": "go" })).await["id"];
    until("the next one is done", async || {
        node.has_state(next, "done").await
    })
    .await;
    assert!(!told.exists());
    tokio::time::sleep(3_000 * MS).await;
    assert!(!told.exists() && node.has_state(id, "cancelled").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_emptied_and_lists_of_jobs_are_cancelled() {
    let (_scene, node) = Scene::served_with(patient).await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(fired(&node, "mail").await);
    }
    let other = fired(&node, "other").await;
    let later = json!({ "queue": "mail", "delay": "1h" });
    let later = &node.post("/v1/jobs", later).await["id"];
    let path = "/v1/deliveries?queue=mail&wait=5s";
    let taken = node.post(path, "").await["deliveries"][0]["id"].clone();
    // One that a consumer holds, one that is pending, one that there is not.
    let list = json!([taken, later, "1-0000000000000000"]);
    let answer = node.post("/v1/jobs/cancel", json!({ "ids": list })).await;
    assert_eq!(answer, json!({ "cancelled": 2, "running": [taken] }));
    let body = json!({ "queue": "mail" });
    let answer = node.post("/v1/jobs/cancel", &body).await;
    assert_eq!(answer, json!({ "cancelled": 6, "running": [] }));
    assert_eq!(node.post("/v1/jobs/cancel", &body).await["cancelled"], 0);
    for id in ids {
        assert!(node.has_state(&json!(id), "cancelled").await);
    }
    assert_eq!(counts(&node, "mail").await, (0, 0, 0));
    assert_eq!(take(&node, "other").await[0]["id"], other);
    for wrong in [json!({}), json!({ "queue": "a", "ids": [] })] {
        assert_eq!(node.ask("POST", "/v1/jobs/cancel", wrong).await.0, 400);
    }
}

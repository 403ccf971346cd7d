//! Which of the jobs that are due is handed out first.

use serde_json::{Value, json};

use crate::support::{Api, MS, Scene, until};

/// Makes a job of each of these priorities, due now, and waits until all have fired.
async fn fire(node: &Api, priorities: &[u8]) -> Vec<Value> {
    let before = node.get("/v1/overview").await["waiting"].as_u64().unwrap();
    let one = |priority| json!({ "payload": priority, "priority": priority, "delay": "0s" });
    let jobs: Vec<Value> = priorities.iter().map(one).collect();
    let made = node.post("/v1/jobs/batch", json!({ "jobs": jobs })).await;
    let wanted = before + priorities.len() as u64;
    until("all have fired", async || {
        node.get("/v1/overview").await["waiting"] == wanted
    })
    .await;
    made["jobs"].as_array().unwrap().clone()
}

async fn take(node: &Api, max: usize) -> Vec<Value> {
    let path = format!("/v1/deliveries?wait=5s&max={max}");
    let answer = node.post(&path, "").await;
    answer["deliveries"].as_array().unwrap().clone()
}

fn priorities(taken: &[Value]) -> Vec<u64> {
    let one = |one: &Value| one["priority"].as_u64().unwrap();
    taken.iter().map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_urgent_jobs_of_all_partitions_come_first() {
    let (_scene, node) = Scene::served_with(|settings| settings.partitions = 8).await;
    let given: Vec<u8> = (0..40).map(|n| n % 10).collect();
    fire(&node, &given).await;
    let listed = node.get("/v1/jobs?state=waiting&limit=1000").await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 40);
    let taken = take(&node, 20).await;
    let wanted: Vec<u64> = (5..10).rev().flat_map(|priority| [priority; 4]).collect();
    assert_eq!(priorities(&taken), wanted);
    assert!(taken.iter().all(|one| one["payload"] == one["priority"]));
    // One after the other, too, and those that have come since are before those that wait.
    fire(&node, &[7, 8]).await;
    let mut taken = Vec::new();
    for _ in 0..8 {
        taken.extend(take(&node, 1).await);
    }
    assert_eq!(priorities(&taken), [8, 7, 4, 4, 4, 4, 3, 3]);
    assert_eq!(node.get("/v1/overview").await["waiting"], 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_knew_no_urgent_job_hears_of_one() {
    let (_scene, node) = Scene::served_with(|settings| settings.partitions = 8).await;
    fire(&node, &[0; 40]).await;
    for urgent in 1..6 {
        assert_eq!(priorities(&take(&node, 1).await), [0]);
        fire(&node, &[urgent]).await;
        assert_eq!(priorities(&take(&node, 1).await), [u64::from(urgent)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenth_goes_to_those_that_have_waited_longest() {
    for max in [1, 7, 64] {
        let (_scene, node) = Scene::served_with(|settings| settings.partitions = 1).await;
        fire(&node, &[0; 30]).await;
        fire(&node, &[9; 300]).await;
        let mut taken = Vec::new();
        while taken.len() < 200 {
            taken.extend(take(&node, max).await);
        }
        let lows = priorities(&taken).iter().filter(|one| **one == 0).count();
        let wanted = taken.len() / 10;
        assert!(wanted.abs_diff(lows) <= 1, "{lows} of {}", taken.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_keeps_its_priority_until_it_ends() {
    let (scene, node) = Scene::served().await;
    let body = json!({ "priority": 3, "queue": "mail", "idempotency_key": "k",
        "backoff": { "kind": "fixed", "delay": "1ms" } });
    let made = node.post("/v1/jobs", &body).await;
    assert_eq!(node.post("/v1/jobs", &body).await["repeated"], true);
    let mut other = body.clone();
    other["priority"] = json!(4);
    assert_eq!(node.ask("POST", "/v1/jobs", other).await.0, 409);
    let job = node.job(&made["id"]).await;
    assert_eq!(
        (&job["priority"], &job["queue"]),
        (&json!(3), &json!("mail"))
    );
    // It fails, its consumer dies, it is dead and comes again.
    for (attempt, how) in [(1, "nack"), (2, "die"), (3, "bury"), (1, "ack")] {
        let hold = if how == "die" { "200ms" } else { "1m" };
        let taken = node.take(&format!("&queue=mail&hold={hold}")).await;
        let seen = (&taken[0]["priority"], &taken[0]["attempt"]);
        assert_eq!(seen, (&json!(3), &json!(attempt)));
        let receipts = json!([taken[0]["receipt"]]);
        match how {
            "nack" => drop(
                node.post("/v1/deliveries/nack", json!({ "receipts": receipts }))
                    .await,
            ),
            "die" => tokio::time::sleep(250 * MS).await,
            "bury" => {
                let dead = json!({ "receipts": receipts, "dead": true });
                node.post("/v1/deliveries/nack", dead).await;
                node.post("/v1/dead/requeue", json!({ "all": true })).await;
            }
            _ => drop(
                node.post("/v1/deliveries/ack", json!({ "receipts": receipts }))
                    .await,
            ),
        }
    }
    let tea = json!({ "every": "200ms", "priority": 5, "overlap": "allow" });
    let put = async |body: &Value| node.ask("PUT", "/v1/schedules/tea", body).await.1;
    assert_eq!(put(&tea).await["changed"], true);
    assert_eq!(put(&tea).await["changed"], false);
    assert_eq!(node.get("/v1/schedules/tea").await["priority"], 5);
    for _ in 0..3 {
        assert_eq!(priorities(&take(&node, 1).await), [5]);
    }
    assert_eq!(
        put(&json!({ "every": "200ms", "overlap": "allow" })).await["changed"],
        true
    );
    for wrong in [json!(10), json!(-1), json!("high"), json!(1.5), Value::Null] {
        let body = json!({ "priority": wrong, "every": "1h" });
        assert_eq!(node.ask("PUT", "/v1/schedules/x", &body).await.0, 400);
        let body = json!({ "priority": wrong });
        assert_eq!(node.ask("POST", "/v1/jobs", &body).await.0, 400);
        let jobs = json!({ "jobs": [{ "delay": "1h" }, body] });
        assert_eq!(node.ask("POST", "/v1/jobs/batch", jobs).await.0, 400);
    }
    drop(scene);
}

//! Lists: what is in them, in which order, and what it costs to find a few jobs among many.

use delayed_jobs::{NewJob, Queue, When};
use serde_json::{Value, json};

use crate::support::{Api, HOUR, MS, Scene, job, now_ms, patient};

async fn ids(node: &Api, path: &str) -> Vec<Value> {
    let page = node.get(path).await;
    let jobs = page["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["id"].clone()).collect()
}

async fn make(node: &Api, body: Value) -> Value {
    node.post("/v1/jobs", body).await["id"].clone()
}

/// Takes the next job of a queue, and says that it has failed.
async fn fails(node: &Api, queue: &str, more: Value) -> Value {
    let taken = node.take(&format!("&queue={queue}")).await;
    let mut nack = json!({ "receipts": [taken[0]["receipt"]], "reason": "no" });
    nack.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    node.post("/v1/deliveries/nack", nack).await;
    taken[0]["id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_jobs_come_newest_first_with_the_time_of_death() {
    let (_scene, node) = Scene::served_with(patient).await;
    let mut died = Vec::new();
    for n in 0..12 {
        let queue = ["default", "mail"][n % 2];
        make(&node, json!({ "queue": queue })).await;
        died.push(fails(&node, queue, json!({ "dead": true })).await);
    }
    died.reverse();
    assert_eq!(ids(&node, "/v1/dead").await, died);
    let mails: Vec<Value> = died.iter().step_by(2).cloned().collect();
    assert_eq!(ids(&node, "/v1/dead?queue=mail").await, mails);
    let (mut paged, mut from) = (Vec::new(), String::new());
    loop {
        let page = node.get(&format!("/v1/dead?limit=5{from}")).await;
        paged.extend(page["jobs"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => from = format!("&from={next}"),
            None => break,
        }
    }
    let found: Vec<Value> = paged.iter().map(|job| job["id"].clone()).collect();
    assert_eq!(found, died);
    let times = paged.iter().map(|job| job["died_ms"].as_u64().unwrap());
    assert!(times.clone().is_sorted_by(|a, b| a >= b), "{paged:?}");
    let (middle, all) = (times.clone().nth(5).unwrap(), times.clone().count());
    let until = ids(&node, &format!("/v1/jobs?state=dead&before_ms={middle}")).await;
    let since = ids(&node, &format!("/v1/jobs?state=dead&after_ms={middle}")).await;
    assert_eq!(until.len() + since.len(), all);
    assert_eq!(until.len(), times.filter(|at| *at < middle).count());
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_retry_and_that_run_have_lists() {
    let (_scene, node) = Scene::served_with(patient).await;
    for queue in ["default", "mail"] {
        make(&node, json!({ "queue": queue })).await;
        make(&node, json!({ "queue": queue, "delay": "1h" })).await;
    }
    let mail = fails(&node, "mail", json!({ "delay": "2h" })).await;
    let other = fails(&node, "default", json!({ "delay": "1h" })).await;
    let retrying = "/v1/jobs?state=retrying";
    assert_eq!(ids(&node, retrying).await, [other.clone(), mail.clone()]);
    assert_eq!(
        ids(&node, &format!("{retrying}&queue=mail")).await,
        [mail.clone()]
    );
    let body = json!({ "delay": "3h" });
    let path = format!("/v1/jobs/{}", other.as_str().unwrap());
    assert_eq!(node.ask("PATCH", &path, &body).await.0, 200);
    assert_eq!(ids(&node, retrying).await, [mail.clone(), other.clone()]);
    assert_eq!(node.ask("DELETE", &path, "").await.0, 200);
    let path = format!("/v1/jobs/{}", mail.as_str().unwrap());
    let now = json!({ "delay": "0s" });
    assert_eq!(node.ask("PATCH", &path, &now).await.0, 200);
    assert_eq!(ids(&node, retrying).await, [mail.clone()]);
    let taken = node.take("&queue=mail&hold=1h").await;
    assert_eq!((&taken[0]["id"], &taken[0]["attempt"]), (&mail, &json!(2)));
    assert!(ids(&node, retrying).await.is_empty());
    let running = node.get("/v1/jobs?state=running").await;
    let job = &running["jobs"][0];
    assert_eq!((&job["id"], &job["attempts"]), (&mail, &json!(2)));
    assert!(job["held_until_ms"].as_u64() > job["fired_ms"].as_u64());
    assert!(
        ids(&node, "/v1/jobs?state=running&queue=default")
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_few_jobs_of_a_queue_are_found_among_many_in_one_page() {
    let (scene, node) = Scene::served_with(patient).await;
    let many = (0..5000).map(|_| job("x", HOUR)).collect();
    assert!(
        scene
            .store
            .create_many(many)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let mail: Queue = "mail".parse().unwrap();
    // Behind the others.
    let due = |n: u64| When::At(now_ms() + 7_200_000 + n);
    for n in 0..5 {
        let queue = mail.clone();
        let when = due(n);
        scene
            .create(NewJob {
                queue,
                when,
                ..job("x", MS)
            })
            .await;
    }
    let page = node.get("/v1/jobs?queue=mail&limit=10").await;
    assert_eq!(page["jobs"].as_array().unwrap().len(), 5);
    assert_eq!(page["next"], Value::Null);
}

//! Lists: what is in them, in which order, and what it costs to find a few jobs among many.

use std::path::Path;

use delayed_jobs::{NewJob, Queue, When};
use serde_json::{Value, json};

use crate::support::{Api, HOUR, MS, Scene, job, now_ms, patient, until};

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
        std::slice::from_ref(&mail)
    );
    let body = json!({ "delay": "3h" });
    let path = format!("/v1/jobs/{}", other.as_str().unwrap());
    assert_eq!(node.ask("PATCH", &path, &body).await.0, 200);
    assert_eq!(ids(&node, retrying).await, [mail.clone(), other.clone()]);
    assert_eq!(node.ask("DELETE", &path, "").await.0, 200);
    let path = format!("/v1/jobs/{}", mail.as_str().unwrap());
    let now = json!({ "delay": "0s" });
    assert_eq!(node.ask("PATCH", &path, &now).await.0, 200);
    assert_eq!(ids(&node, retrying).await, std::slice::from_ref(&mail));
    let taken = node.take("&queue=mail&hold=1h&consumer=mailer-7").await;
    assert_eq!((&taken[0]["id"], &taken[0]["attempt"]), (&mail, &json!(2)));
    assert!(ids(&node, retrying).await.is_empty());
    let running = node.get("/v1/jobs?state=running").await;
    let job = &running["jobs"][0];
    assert_eq!((&job["id"], &job["attempts"]), (&mail, &json!(2)));
    assert_eq!(job["consumer"], "mailer-7");
    assert!(job["taken_ms"].as_u64() >= job["fired_ms"].as_u64());
    assert!(job["held_until_ms"].as_u64() > job["taken_ms"].as_u64());
    assert!(
        ids(&node, "/v1/jobs?state=running&queue=default")
            .await
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_jobs_are_listed_as_they_have_fired_whatever_their_priority() {
    let (_scene, node) = Scene::served_with(patient).await;
    let mut made = Vec::new();
    for n in 0..30 {
        let queue = ["default", "mail"][n / 2 % 2];
        let id = make(&node, json!({ "queue": queue, "priority": n % 10 })).await;
        until("it waits", async || node.has_state(&id, "waiting").await).await;
        made.push(id);
    }
    let (mut paged, mut from) = (Vec::new(), String::new());
    loop {
        let page = node
            .get(&format!("/v1/jobs?state=waiting&limit=7{from}"))
            .await;
        paged.extend(page["jobs"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => from = format!("&from={next}"),
            None => break,
        }
    }
    // The moment of firing is Redis' until a consumer takes the job, so the order of their creation tells it.
    let found: Vec<Value> = paged.iter().map(|job| job["id"].clone()).collect();
    assert_eq!(found, made);
    let mails = ids(&node, "/v1/jobs?state=waiting&queue=mail&limit=100").await;
    let wanted: Vec<Value> = (0..30)
        .filter(|n| n / 2 % 2 == 1)
        .map(|n| made[n].clone())
        .collect();
    assert_eq!(mails, wanted);
    let before = format!(
        "/v1/jobs?state=waiting&limit=100&before_ms={}",
        now_ms() + 60_000
    );
    assert_eq!(ids(&node, &before).await, made);
    let after = before.replace("before", "after");
    assert!(ids(&node, &after).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_that_fired_at_once_come_once_each_page_by_page() {
    let (_scene, node) = Scene::served_with(|settings| {
        patient(settings);
        settings.partitions = 2;
    })
    .await;
    let due = now_ms() + 300;
    let jobs: Vec<Value> = (0..60)
        .map(|n| json!({ "due_ms": due, "priority": n % 3 }))
        .collect();
    let made = node.post("/v1/jobs/batch", json!({ "jobs": jobs })).await;
    until("all wait", async || {
        node.get("/v1/overview").await["waiting"] == 60
    })
    .await;
    let mut wanted: Vec<String> = made["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].to_string())
        .collect();
    let (mut found, mut from) = (Vec::new(), String::new());
    loop {
        let page = node
            .get(&format!("/v1/jobs?state=waiting&limit=7{from}"))
            .await;
        found.extend(
            page["jobs"]
                .as_array()
                .unwrap()
                .iter()
                .map(|job| job["id"].to_string()),
        );
        match page["next"].as_str() {
            Some(next) => from = format!("&from={next}"),
            None => break,
        }
    }
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
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

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_expired_is_dead_and_not_delivered() {
    let (_scene, node) = Scene::served_with(patient).await;
    let late = make(&node, json!({ "expires": "100ms", "payload": "late" })).await;
    let moved = make(&node, json!({ "expires": "100ms", "delay": "1h" })).await;
    let path = format!("/v1/jobs/{}", moved.as_str().unwrap());
    let body = json!({ "due_ms": now_ms() + 7_200_000 });
    assert_eq!(node.ask("PATCH", &path, &body).await.0, 200);
    let job = node.job(&moved).await;
    let lasts = job["expires_ms"].as_u64().unwrap() - job["due_ms"].as_u64().unwrap();
    assert_eq!(lasts, 100, "it moves with the job");
    tokio::time::sleep(300 * MS).await;
    let good = make(&node, json!({ "expires": "1h", "payload": "good" })).await;
    let mut taken = Vec::new();
    while taken.is_empty() {
        taken = node.take("").await;
    }
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!(taken[0]["id"], good);
    let job = node.job(&late).await;
    assert_eq!(job["state"], "dead", "{job}");
    assert_eq!(job["reason"], "expired before a consumer took it");
    assert_eq!(ids(&node, "/v1/dead").await, std::slice::from_ref(&late));
    // Who requeues it wants it delivered.
    node.post("/v1/dead/requeue", json!({ "ids": [late] }))
        .await;
    let taken = node.take("").await;
    assert_eq!(taken[0]["id"], late);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_its_maker_comes_with_a_job() {
    let (_scene, node) = Scene::served_with(patient).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let in_body = json!({ "traceparent": trace, "idempotency_key": "a" });
    let id = make(&node, in_body).await;
    // Each try of a request has a span of its own.
    let again = json!({ "traceparent": trace.replace("-00f", "-11f"), "idempotency_key": "a" });
    assert_eq!(make(&node, again).await, id);
    let http = reqwest::Client::new();
    let send = async |value: &str| {
        let request = http.post(format!("{}/v1/jobs", node.address()));
        let request = request
            .header("traceparent", value)
            .header("content-type", "application/json");
        assert_eq!(request.body("{}").send().await.unwrap().status(), 201);
    };
    send(trace).await;
    send("what is no trace").await;
    let mut traces = Vec::new();
    while traces.len() < 3 {
        for one in node.take("").await {
            traces.push(one["traceparent"].clone());
        }
    }
    traces.retain(|one| one != trace);
    assert_eq!(traces, [Value::Null]);
    assert_eq!(node.job(&id).await["traceparent"], trace);
    let wrong = json!({ "traceparent": "00-1-2-3" });
    assert_eq!(node.ask("POST", "/v1/jobs", wrong).await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_says_for_what_it_waits() {
    let (_scene, node) = Scene::served_with(patient).await;
    let waits = async |id: &Value, what: &str| {
        let job = node.job(id).await;
        let said = job["waits"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(what), "{what}: {job}");
    };
    let later = make(&node, json!({ "delay": "1h" })).await;
    waits(&later, "it is due in 59m").await;
    let of = |queue: &str| json!({ "queue": queue });
    let fired = async |queue: &str| {
        let id = make(&node, of(queue)).await;
        assert!(node.has_state(&id, "waiting").await);
        id
    };
    let alone = fired("sms").await;
    waits(&alone, "no consumer has asked for the queue `sms`").await;
    node.post("/v1/queues/sms/pause", "").await;
    waits(&alone, "the queue `sms` is paused").await;
    let limits = json!({ "concurrency": 1 });
    assert_eq!(node.ask("PUT", "/v1/queues/mail", limits).await.0, 200);
    let held = fired("mail").await;
    assert_eq!(node.take("&queue=mail&hold=1h&consumer=me").await.len(), 1);
    waits(&held, "me holds it for 59m").await;
    let next = fired("mail").await;
    waits(&next, "consumers hold 1 jobs of the queue `mail`").await;
    let rate = json!({ "rate": { "jobs": 1, "per": "1h" } });
    assert_eq!(node.ask("PUT", "/v1/queues/news", rate).await.0, 200);
    fired("news").await;
    assert_eq!(node.take("&queue=news").await.len(), 1);
    let next = fired("news").await;
    waits(&next, "handed out 1 jobs within 1h").await;
    let done = node.job(&held).await;
    node.post(
        "/v1/deliveries/nack",
        json!({ "receipts": [format!("{}.1p", done["id"].as_str().unwrap())], "dead": true }),
    )
    .await;
    assert_eq!(node.job(&held).await["waits"], Value::Null);
}

/// Copies a folder with its folders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_data_that_is_restored_is_noticed() {
    let (mut scene, node) = Scene::served().await;
    scene.create(job("before", HOUR)).await;
    let (kept, data) = (
        tempfile::tempdir().unwrap(),
        scene.redis.folder().join("appendonlydir"),
    );
    // The first request after a restart may meet the connection that has ended.
    let lost = async || loop {
        let (status, overview) = node.ask("GET", "/v1/overview", "").await;
        if status == 200 {
            break overview["lost_ms"].clone();
        }
        tokio::time::sleep(50 * MS).await;
    };
    // The file has all after a second.
    tokio::time::sleep(1_500 * MS).await;
    copy(&data, kept.path());
    scene.create(job("since", HOUR)).await;
    tokio::time::sleep(2_500 * MS).await;
    scene.redis.restart().await.unwrap();
    scene.shared_by(1).await;
    assert_eq!(lost().await, Value::Null, "nothing is lost by a restart");
    tokio::time::sleep(2_500 * MS).await;
    scene.redis.kill().await.unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    copy(kept.path(), &data);
    scene.redis.restart().await.unwrap();
    until("a node notices", async || lost().await.is_u64()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_consumer_takes_from_several_queues() {
    let (scene, node) = Scene::served_with(patient).await;
    let mut queues = Vec::new();
    let limit = json!({ "rate": { "jobs": 100, "per": "1s" } });
    assert_eq!(node.ask("PUT", "/v1/queues/sms", limit).await.0, 200);
    // While it waits, and whatever the queue.
    for queue in ["sms", "mail", "sms", "default", "mail"] {
        let take = node.post("/v1/deliveries?queue=mail,sms,default&wait=20s", "");
        let make = async {
            tokio::time::sleep(200 * MS).await;
            make(&node, json!({ "queue": queue })).await
        };
        let begun = std::time::Instant::now();
        let (taken, id) = tokio::join!(take, make);
        assert_eq!(taken["deliveries"][0]["id"], id);
        assert!(begun.elapsed() < 10_000 * MS, "it was told");
        queues.push(taken["deliveries"][0]["queue"].clone());
    }
    assert_eq!(queues, ["sms", "mail", "sms", "default", "mail"]);
    // What waits there already, at most so many at a time, and nothing of others.
    for queue in ["mail", "sms", "other", "mail", "sms"] {
        let id = make(&node, json!({ "queue": queue })).await;
        assert!(node.has_state(&id, "waiting").await);
    }
    let (mail, sms): (Queue, Queue) = ("mail".parse().unwrap(), "sms".parse().unwrap());
    let mut consumer = scene.consumer().await.of_any(mail, [sms]);
    let mut count = 0;
    while count < 4 {
        let batch = consumer.batch(3).await;
        assert!((1..=3).contains(&batch.len()));
        assert!(batch.iter().all(|one| one.queue.to_string() != "other"));
        count += batch.len();
    }
    let wrong = node.ask("POST", "/v1/deliveries?queue=mail,", "").await;
    assert_eq!(wrong.0, 400);
}

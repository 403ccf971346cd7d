//! What a job costs Redis, however many nodes wait for it; and that the one node that is told of it may die.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{Api, MS, Scene, connection, patient, say, until};

/// Scripts that Redis has run, and the microseconds of a processor that it took.
async fn spent(scene: &Scene) -> (f64, f64) {
    let mut wire = connection(&scene.redis).await;
    let info: String = redis::cmd("INFO")
        .arg(&["commandstats", "cpu"])
        .query_async(&mut wire)
        .await
        .unwrap();
    let number = |name: &str| {
        let mut lines = info.lines();
        let text = lines.find_map(|line| line.strip_prefix(name)).unwrap();
        text.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    let cpu = number("used_cpu_sys:") + number("used_cpu_user:");
    (number("cmdstat_evalsha:calls="), cpu * 1e6)
}

/// Jobs that come one by one.
const JOBS: u32 = 100;

/// How long they come.
const TIME: Duration = Duration::from_secs(4);

/// Scripts for each job that comes alone, from its creation to its end, and their microseconds, beside what an idle
/// namespace costs. On each node a consumer waits.
async fn cost_per_job(nodes: u32) -> (f64, f64) {
    let scene = Scene::with(|settings| {
        patient(settings);
        settings.partitions = 6;
    })
    .await;
    let mut consumers = JoinSet::new();
    let mut apis = Vec::new();
    for _ in 0..nodes {
        apis.push(scene.node().await);
    }
    scene.shared_by(nodes as usize).await;
    for api in &apis {
        let address = api.address().to_owned();
        consumers.spawn(async move {
            let http = reqwest::Client::new();
            let post = async |path: &str, body: Value| -> reqwest::Result<Value> {
                let request = http.post(format!("{address}{path}")).json(&body);
                request.send().await?.json().await
            };
            // Until the node ends.
            while let Ok(taken) = post("/v1/deliveries?wait=30s", json!({})).await {
                for one in taken["deliveries"].as_array().unwrap() {
                    let ended = json!({ "receipts": [one["receipt"]] });
                    let _ = post("/v1/deliveries/ack", ended).await;
                }
            }
        });
    }
    tokio::time::sleep(1_000 * MS).await;
    let before = spent(&scene).await;
    tokio::time::sleep(TIME).await;
    let idle = spent(&scene).await;
    let start = Instant::now();
    for n in 0..JOBS {
        apis[0]
            .post("/v1/jobs", json!({ "payload": n, "delay": "100ms" }))
            .await;
        tokio::time::sleep_until((start + TIME * n / JOBS).into()).await;
    }
    tokio::time::sleep_until((start + TIME).into()).await;
    let after = spent(&scene).await;
    let per_job =
        |before: f64, idle: f64, after: f64| ((after - idle) - (idle - before)) / f64::from(JOBS);
    (
        per_job(before.0, idle.0, after.0),
        per_job(before.1, idle.1, after.1),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_costs_the_same_however_many_nodes_wait_for_it() {
    // Made, fired, taken and ended. A consumer that was not back in time adds some, and so do those that ask each 15 s.
    // When all nodes asked, they were nine for six nodes.
    for nodes in [1, 3, 6] {
        let (scripts, micros) = cost_per_job(nodes).await;
        println!("{nodes} nodes: {scripts:.2} scripts and {micros:.0} us of Redis for a job");
        assert!((3.0..6.5).contains(&scripts), "{nodes} nodes: {scripts:.2}");
    }
}

/// Has a consumer wait at a node, for a job of this queue that it takes and does not end.
fn wait_at(node: &Api) -> JoinHandle<Option<String>> {
    let url = format!("{}/v1/deliveries?wait=60s&queue=mail", node.address());
    tokio::spawn(async move {
        let taken = reqwest::Client::new().post(url).send().await.ok()?;
        let taken: Value = taken.json().await.ok()?;
        Some(taken["deliveries"][0]["id"].as_str()?.to_owned())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_node_was_told_of_it_and_died_goes_to_another_one() {
    let scene = Scene::with(|settings| {
        (settings.lease, settings.patience) = (3_000 * MS, 1_000 * MS);
        settings.partitions = 1;
    })
    .await;
    // It fires.
    let holder = scene.node().await;
    scene.shared_by(1).await;
    let (dies, stays) = (scene.node().await, scene.node().await);
    let waiting = async || say::<Vec<String>>(&scene.redis, "SMEMBERS jobs:{0}:waiters:mail").await;
    let _dying = wait_at(&dies);
    until("one waits", async || waiting().await.len() == 1).await;
    let name = waiting().await.remove(0);
    dies.pause();
    // Which of the two is told is left to chance.
    loop {
        let staying = wait_at(&stays);
        until("both wait", async || waiting().await.len() == 2).await;
        let made = holder.post("/v1/jobs", json!({ "queue": "mail" })).await;
        until("one is told", async || {
            staying.is_finished() || !waiting().await.contains(&name)
        })
        .await;
        if waiting().await.contains(&name) {
            assert_eq!(json!(staying.await.unwrap()), made["id"]);
            continue;
        }
        let told = Instant::now();
        dies.kill().await;
        assert_eq!(json!(staying.await.unwrap()), made["id"]);
        // A third of a lease and 100 ms, on a busy machine.
        assert!(told.elapsed() < 3_000 * MS, "{:?}", told.elapsed());
        return;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_where_nobody_waits_any_more_tells_another_one() {
    let scene = Scene::with(|settings| {
        patient(settings);
        settings.partitions = 1;
    })
    .await;
    let (left, stays) = (scene.node().await, scene.node().await);
    let waiting = async || say::<Vec<String>>(&scene.redis, "SMEMBERS jobs:{0}:waiters:mail").await;
    for n in 0..10 {
        // It asks once, and goes.
        let nothing = left.post("/v1/deliveries?queue=mail", "").await;
        assert_eq!(nothing["deliveries"], json!([]));
        let staying = wait_at(&stays);
        until("both wait", async || waiting().await.len() == 2).await;
        let start = Instant::now();
        let made = left.post("/v1/jobs", json!({ "queue": "mail" })).await;
        assert_eq!(json!(staying.await.unwrap()), made["id"]);
        assert!(start.elapsed() < 2_000 * MS, "{n}: {:?}", start.elapsed());
        // What it was told is forgotten.
        left.post("/v1/deliveries?queue=mail", "").await;
    }
}

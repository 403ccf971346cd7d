//! Recurring jobs.

use std::collections::HashMap;
use std::time::Instant;

use delayed_jobs::{Delivery, NewSchedule, Recurrence, Scheduled, Settings, Store, StoreError};
use serde_json::{Value, json};

use crate::http::ask;
use crate::support::{MS, consumer, node, redis, settings, shared_by};

fn every(name: &str, ms: u32, payload: &str) -> NewSchedule {
    let recurrence = Recurrence::every(ms * MS).unwrap();
    NewSchedule { name: name.to_owned(), recurrence, payload: payload.to_owned(), retry: None }
}

/// Takes and acknowledges for a while.
async fn collect_for(settings: &Settings, time: std::time::Duration) -> Vec<Delivery> {
    let (mut consumer, end) = (consumer(settings).await, Instant::now() + time);
    let mut all = Vec::new();
    while let Ok(one) = tokio::time::timeout_at(end.into(), consumer.next()).await {
        let mut batch = vec![one];
        batch.extend(consumer.more());
        consumer.acknowledge(&batch).await.unwrap();
        all.extend(batch);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_comes_again_and_again_until_it_is_ended() {
    let redis = redis().await;
    let settings = settings(&redis);
    let node = node(&settings).await;
    let url = format!("{}/v1/schedules", node.address());
    let tea = format!("{url}/tea");
    let body = json!({ "every": "200ms", "payload": "tea", "max_attempts": 2 }).to_string();
    let (status, made) = ask("PUT", &tea, &body).await;
    assert_eq!((status, &made["changed"]), (201, &json!(true)), "{made}");
    let (status, again) = ask("PUT", &tea, &body).await;
    assert_eq!((status, &again["changed"]), (200, &json!(false)), "the same one again");
    let all = collect_for(&settings, 2_100 * MS).await;
    let due: Vec<u64> = all.iter().map(|one| one.due_ms).collect();
    assert_eq!(json!(due[0]), made["next_ms"]);
    assert!((8..=10).contains(&due.len()), "{due:?}");
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 200), "{due:?}");
    assert!(all.iter().all(|one| one.fired_ms >= one.due_ms && one.max_attempts == 2));
    assert_eq!((all[0].schedule.as_deref(), all[0].payload.as_str()), (Some("tea"), "\"tea\""));

    // Another recurrence takes the place of the first one.
    let body = json!({ "cron": "* * * * * *", "timezone": "Asia/Tokyo", "payload": "rice" });
    let (status, changed) = ask("PUT", &tea, &body.to_string()).await;
    assert_eq!((status, &changed["changed"]), (200, &json!(true)), "{changed}");
    let all = collect_for(&settings, 3_100 * MS).await;
    let mut due: Vec<u64> =
        all.iter().filter(|one| one.payload.contains("rice")).map(|one| one.due_ms).collect();
    due.dedup();
    assert!(due.len() >= 2 && due.iter().all(|due| due % 1000 == 0), "{due:?}");
    assert!(due.windows(2).all(|pair| pair[1] - pair[0] == 1000), "{due:?}");
    assert!(all.len() <= due.len() + 1, "the first one has not ended: {all:?}");

    let (_, list) = ask("GET", &url, "").await;
    assert_eq!(list["schedules"][0]["recurrence"], "cron Asia/Tokyo * * * * * *");
    let (_, one) = ask("GET", &tea, "").await;
    assert_eq!((&one["payload"], &list["schedules"][0]["name"]), (&json!("rice"), &json!("tea")));
    assert_eq!(ask("DELETE", &tea, "").await.0, 200);
    assert_eq!(ask("DELETE", &tea, "").await.0, 404);
    assert_eq!(ask("GET", &tea, "").await.0, 404);
    let (_, overview) = ask("GET", &format!("{}/v1/overview", node.address()), "").await;
    assert_eq!(overview["pending"], 0, "its job that was to come is gone");
    assert_eq!(ask("GET", &url, "").await.1, json!({ "schedules": [], "next": Value::Null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_survive_killed_nodes_and_no_occurrence_is_doubled() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let mut nodes = vec![node(&settings).await, node(&settings).await];
    shared_by(&store, 2).await;
    let mut phases = HashMap::new();
    for n in 0..8 {
        let name = format!("s{n}");
        let (scheduled, first) = store.schedule(&every(&name, 150, &name)).await.unwrap();
        assert_eq!(scheduled, Scheduled::Created);
        phases.insert(name, first);
    }
    let collector = tokio::spawn({
        let settings = settings.clone();
        async move { collect_for(&settings, 6_000 * MS).await }
    });
    for _ in 0..3 {
        tokio::time::sleep(700 * MS).await;
        let mut victim = nodes.remove(0);
        victim.kill().await.unwrap();
        nodes.push(node(&settings).await);
        shared_by(&store, 2).await;
    }
    let mut seen: HashMap<(String, u64), Vec<Delivery>> = HashMap::new();
    for one in collector.await.unwrap() {
        let name = one.schedule.clone().unwrap();
        assert_eq!((one.due_ms - phases[&name]) % 150, 0, "{name} has lost its phase");
        seen.entry((name, one.due_ms)).or_default().push(one);
    }
    for (what, deliveries) in &seen {
        assert!(deliveries.iter().all(|one| one.id == deliveries[0].id), "doubled: {what:?}");
    }
    for (name, first) in phases {
        let due: Vec<u64> = seen.keys().filter(|key| key.0 == name).map(|key| key.1).collect();
        assert!(due.contains(&first) && due.len() >= 8, "{name}: {due:?}");
        let last = due.iter().max().unwrap();
        assert!(last - first > 4_500, "{name} has ended: {due:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_believe_in_the_same_moment_make_one_job() {
    let redis = redis().await;
    let settings = Settings { partitions: 1, ..settings(&redis) };
    let store = Store::open(settings.clone()).await.unwrap();
    let (_, first) = store.schedule(&every("tea", 60_000, "x")).await.unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts");
    let read = |name| std::fs::read_to_string(format!("{folder}/{name}.lua")).unwrap();
    let tick = redis::Script::new(&(read("common") + &read("tick")));
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut made = Vec::new();
    for id in ["0-00000000000000aa", "0-00000000000000bb"] {
        let mut call = tick.key("jobs:{0}");
        call.arg("tea").arg(first).arg(first + 60_000).arg(id).arg(0);
        made.push(call.invoke_async::<u8>(&mut connection).await.unwrap());
    }
    assert_eq!(made, [1, 0]);
    assert_eq!(store.overview().await.unwrap().pending, 2, "this one and the next one");
    assert_eq!(store.get_schedule("tea").await.unwrap().next_ms, first + 60_000);
    assert_eq!(
        store.schedule(&every("tea", 60_000, "x")).await.unwrap(),
        (Scheduled::Known, first + 60_000)
    );
    let (scheduled, _) = store.schedule(&every("tea", 60_000, "y")).await.unwrap();
    assert_eq!(scheduled, Scheduled::Changed);
    assert_eq!(store.overview().await.unwrap().pending, 2, "a job took the place of the next one");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_schedules_are_refused_with_a_reason() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    for name in ["", "a b", "a/b", &"x".repeat(201)] {
        let refused = store.schedule(&every(name, 1_000, "x")).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{name:.20}: {refused:?}");
    }
    let node = node(&settings).await;
    let url = format!("{}/v1/schedules/tea", node.address());
    for (body, hint) in [
        (json!({}), "either every, or cron"),
        (json!({ "every": "1s", "cron": "* * * * *" }), "either every, or cron"),
        (json!({ "every": "1s", "timezone": "UTC" }), "either every, or cron"),
        (json!({ "every": "1ms" }), "100 ms or more"),
        (json!({ "every": "often" }), "every: not a duration"),
        (json!({ "cron": "* * *" }), "such as `0 9"),
        (json!({ "cron": "0 0 30 2 *" }), "never comes"),
        (json!({ "cron": "* * * * *", "timezone": "Mars" }), "Europe/Berlin"),
        (json!({ "every": "1s", "max_attempts": 0 }), "1 or more"),
        (json!({ "every": "1s", "until": 3 }), "until"),
    ] {
        let (status, answer) = ask("PUT", &url, &body.to_string()).await;
        let reason = answer["error"]["reason"].as_str().unwrap_or("none");
        assert!(status == 400 && reason.contains(hint), "{body}: {status} {answer}");
    }
    assert_eq!(store.overview().await.unwrap().pending, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_goes_on_after_one_of_its_jobs_was_cancelled() {
    let redis = redis().await;
    // The first job is beyond the window when it is cancelled.
    let settings = Settings { window: 1_000 * MS, ..settings(&redis) };
    let store = Store::open(settings.clone()).await.unwrap();
    let node = node(&settings).await;
    shared_by(&store, 1).await;
    let (_, first) = store.schedule(&every("tea", 1_800, "x")).await.unwrap();
    store.cancel(&store.get_schedule("tea").await.unwrap().job).await.unwrap();
    let all = collect_for(&settings, 4_200 * MS).await;
    let due: Vec<u64> = all.iter().map(|one| one.due_ms).collect();
    assert_eq!(due, [first + 1_800], "only the first one was cancelled");
    drop(node);
}

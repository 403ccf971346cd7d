//! Recurring jobs.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use delayed_jobs::{
    Delivery, NewSchedule, Overlap, Priority, Queue, Recurrence, Scheduled, StoreError,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::servers::serve;
use crate::support::{MS, Scene, connection, now_ms, say, until};

fn every(name: &str, ms: u32, payload: &str) -> NewSchedule {
    let recurrence = Recurrence::every(ms * MS).unwrap();
    NewSchedule {
        name: name.to_owned(),
        recurrence,
        payload: payload.to_owned(),
        retry: None,
        queue: Queue::default(),
        priority: Priority::default(),
        overlap: Overlap::Skip,
    }
}

/// Takes and acknowledges for a while.
async fn collect_for(scene: &Scene, time: Duration) -> Vec<Delivery> {
    let (mut consumer, end) = (scene.consumer().await, Instant::now() + time);
    let mut all = Vec::new();
    while let Ok(batch) = tokio::time::timeout_at(end.into(), consumer.batch(512)).await {
        consumer.acknowledge(&batch).await.unwrap();
        all.extend(batch);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_comes_again_and_again_until_it_is_ended() {
    let (scene, node) = Scene::served().await;
    let (url, tea) = ("/v1/schedules", "/v1/schedules/tea");
    let body = json!({ "every": "200ms", "payload": "tea", "max_attempts": 2 });
    let (status, made) = node.ask("PUT", tea, &body).await;
    assert_eq!((status, &made["changed"]), (201, &json!(true)), "{made}");
    let (status, again) = node.ask("PUT", tea, &body).await;
    assert_eq!(
        (status, &again["changed"]),
        (200, &json!(false)),
        "the same one again"
    );
    let all = collect_for(&scene, 2_100 * MS).await;
    let due: Vec<u64> = all.iter().map(|one| one.due_ms).collect();
    assert_eq!(json!(due[0]), made["next_ms"]);
    assert!(due.len() >= 8, "{due:?}");
    assert!(
        due.windows(2).all(|pair| pair[1] - pair[0] == 200),
        "{due:?}"
    );
    assert!(
        all.iter()
            .all(|one| one.fired_ms >= one.due_ms && one.max_attempts == 2)
    );
    assert_eq!(
        (all[0].schedule.as_deref(), all[0].payload.as_str()),
        (Some("tea"), "\"tea\"")
    );

    // Another recurrence takes the place of the first one.
    let body = json!({ "cron": "* * * * * *", "timezone": "Asia/Tokyo", "payload": "rice" });
    let (status, changed) = node.ask("PUT", tea, body).await;
    assert_eq!(
        (status, &changed["changed"]),
        (200, &json!(true)),
        "{changed}"
    );
    let now = now_ms();
    let all = collect_for(&scene, 3_100 * MS).await;
    let (rice, tea_left): (Vec<_>, Vec<_>) =
        all.iter().partition(|one| one.payload.contains("rice"));
    let due: Vec<u64> = rice.iter().map(|one| one.due_ms).collect();
    assert!(
        due.len() >= 2 && due.iter().all(|due| due % 1000 == 0),
        "{due:?}"
    );
    assert!(
        due.windows(2).all(|pair| pair[1] - pair[0] == 1000),
        "{due:?}"
    );
    assert!(
        tea_left.iter().all(|one| one.due_ms <= now),
        "the first one has not ended: {all:?}"
    );

    for one in [&node.get(tea).await, &node.get(url).await["schedules"][0]] {
        assert_eq!(one["recurrence"], "cron Asia/Tokyo * * * * * *");
        assert_eq!(
            (&one["payload"], &one["name"]),
            (&json!("rice"), &json!("tea"))
        );
    }
    for (method, status) in [("DELETE", 200), ("DELETE", 404), ("GET", 404)] {
        assert_eq!(node.ask(method, tea, "").await.0, status);
    }
    assert_eq!(
        node.get(url).await,
        json!({ "schedules": [], "next": null })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_survive_killed_nodes_and_no_occurrence_is_doubled() {
    let scene = Scene::new().await;
    let mut nodes = vec![scene.node().await, scene.node().await];
    scene.shared_by(2).await;
    let mut phases = HashMap::new();
    for n in 0..8 {
        let name = format!("s{n}");
        let (scheduled, first) = scene
            .store
            .schedule(&every(&name, 150, &name))
            .await
            .unwrap();
        assert_eq!(scheduled, Scheduled::Created);
        phases.insert(name, first);
    }
    let kills = async {
        for _ in 0..3 {
            tokio::time::sleep(700 * MS).await;
            nodes.remove(0).kill().await;
            nodes.push(scene.node().await);
            scene.shared_by(2).await;
        }
    };
    let (all, ()) = tokio::join!(collect_for(&scene, 6_000 * MS), kills);
    let mut seen = HashMap::new();
    for one in all {
        let name = one.schedule.clone().unwrap();
        assert_eq!(
            (one.due_ms - phases[&name]) % 150,
            0,
            "{name} has lost its phase"
        );
        let id = seen.entry((name, one.due_ms)).or_insert(one.id.clone());
        assert_eq!(*id, one.id, "doubled");
    }
    for (name, first) in phases {
        let due: Vec<u64> = seen
            .keys()
            .filter(|key| key.0 == name)
            .map(|key| key.1)
            .collect();
        assert!(due.contains(&first) && due.len() >= 8, "{name}: {due:?}");
        let last = due.iter().max().unwrap();
        assert!(last - first > 4_500, "{name} has ended: {due:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_that_believe_in_the_same_moment_make_one_job() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let store = &scene.store;
    let (_, first) = store.schedule(&every("tea", 60_000, "x")).await.unwrap();
    let next = first + 60_000;
    for (id, made) in [("0-00000000000000aa", 1), ("0-00000000000000bb", 0)] {
        let args = ("tea", first, next, id);
        assert_eq!(scene.script::<u8>("tick", args).await, made);
    }
    let pending = async || store.overview().await.unwrap().pending;
    assert_eq!(pending().await, 1);
    assert_eq!(store.get_schedule("tea").await.unwrap().next_ms, next);
    let again = store.schedule(&every("tea", 60_000, "x")).await.unwrap();
    assert_eq!(again.0, Scheduled::Known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_waits_for_its_last_job_unless_it_says_otherwise() {
    let (scene, node) = Scene::served().await;
    for (queue, overlap) in [("skips", "skip"), ("allows", "allow")] {
        let body = json!({ "every": "200ms", "queue": queue, "overlap": overlap });
        let path = format!("/v1/schedules/{queue}");
        assert_eq!(node.ask("PUT", &path, &body).await.0, 201);
        assert_eq!(node.get(&path).await["overlap"], overlap);
    }
    let waiting = async |name: &str| {
        let all = scene.store.overview().await.unwrap().queues;
        let one = all.into_iter().find(|one| one.queue.to_string() == name);
        one.map_or(0, |one| one.waiting)
    };
    until("some wait", async || waiting("allows").await > 5).await;
    assert_eq!(waiting("skips").await, 1);
    // Held is not ended.
    let first = node.take("&queue=skips").await;
    tokio::time::sleep(500 * MS).await;
    assert_eq!(waiting("skips").await, 0);
    node.post(
        "/v1/deliveries/ack",
        json!({ "receipts": [first[0]["receipt"]] }),
    )
    .await;
    let second = node.take("&queue=skips").await;
    assert_ne!(second[0]["id"], first[0]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_keep_to_the_limit_on_what_waits() {
    let (scene, node) = Scene::served_with(|settings| settings.max_waiting = Some(5)).await;
    let body = json!({ "every": "100ms", "overlap": "allow" });
    node.ask("PUT", "/v1/schedules/tea", &body).await;
    let waiting = async || scene.store.overview().await.unwrap().waiting;
    until("the limit is reached", async || waiting().await >= 5).await;
    // The node counts once a second.
    tokio::time::sleep(2_500 * MS).await;
    let reached = waiting().await;
    tokio::time::sleep(1_500 * MS).await;
    assert_eq!(waiting().await, reached);
    let all = collect_for(&scene, 4_000 * MS).await;
    assert!(
        all.len() as u64 > reached,
        "it goes on: {} {reached}",
        all.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_is_put_again_and_again_keeps_its_moment() {
    let (scene, _node) = Scene::served().await;
    let puts = async {
        for n in 0..30 {
            let plan = every("tea", 1_000, &n.to_string());
            scene.store.schedule(&plan).await.unwrap();
            tokio::time::sleep(100 * MS).await;
        }
    };
    let (all, ()) = tokio::join!(collect_for(&scene, 3_500 * MS), puts);
    assert!(all.len() >= 2, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_was_planned_while_the_clock_was_ahead_is_planned_again() {
    let (scene, _node) = Scene::served_with(|settings| settings.partitions = 1).await;
    let tea = every("tea", 1_000, "x");
    let ahead = async || {
        let later = now_ms() + 7_200_000;
        let _: u64 = say(
            &scene.redis,
            &format!("ZADD jobs:{{0}}:schedules {later} tea"),
        )
        .await;
        later
    };
    scene.store.schedule(&tea).await.unwrap();
    // The same request heals it.
    ahead().await;
    let (scheduled, next) = scene.store.schedule(&tea).await.unwrap();
    assert!(
        scheduled == Scheduled::Known && next < now_ms() + 1_100,
        "{next}"
    );
    // So does the holder, who sees that the clock was set back.
    let later = ahead().await;
    let _: () = say(&scene.redis, &format!("SET jobs:{{0}}:clock {later}")).await;
    let all = collect_for(&scene, 4_000 * MS).await;
    assert!(!all.is_empty());
    // One that has ended meanwhile stays so.
    scene.store.unschedule("tea").await.unwrap();
    let _: () = say(&scene.redis, &format!("SET jobs:{{0}}:clock {later}")).await;
    tokio::time::sleep(700 * MS).await;
    assert_eq!(
        say::<u64>(&scene.redis, "ZCARD jobs:{0}:schedules").await,
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_schedules_is_refused_if_redis_refuses_one() {
    let (scene, node) = Scene::served().await;
    node.ask("PUT", "/v1/schedules/tea", json!({ "every": "1h" }))
        .await;
    assert_eq!(
        node.get("/v1/schedules").await["schedules"][0]["name"],
        "tea"
    );
    let _: () = say(&scene.redis, "ACL SETUSER default -hmget").await;
    let (status, answer) = node.ask("GET", "/v1/schedules", "").await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (503, &json!("redis_denied")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_period_that_could_not_be_read_again_is_refused() {
    let scene = Scene::new().await;
    for period in [Duration::ZERO, 50 * MS] {
        let plan = NewSchedule {
            recurrence: Recurrence::Every(period),
            ..every("x", 100, "1")
        };
        let refused = scene.store.schedule(&plan).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_cannot_go_on_ends_with_a_line_in_the_log() {
    let scene = Scene::with(|settings| settings.partitions = 1).await;
    let mut node = serve(&scene.redis.url(), &["--partitions", "1"]);
    node.env("RUST_LOG", "delayed_jobs=error")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let node = node.spawn().unwrap();
    scene.shared_by(1).await;
    let cases = [
        ("lost", "cron Mars/Base 0 9 * * *", "is not one of the IANA"),
        ("past", "cron UTC 0 0 9 1 1 * 2020", "no date fits"),
        ("empty", "", "no recurrence"),
    ];
    for (name, recurrence, _) in cases {
        scene.store.schedule(&every(name, 200, name)).await.unwrap();
        let key = format!("jobs:{{0}}:schedule:{name}");
        let mut set = redis::cmd("HSET");
        set.arg(key).arg("recurrence").arg(recurrence);
        let mut connection = connection(&scene.redis).await;
        let _: u64 = set.query_async(&mut connection).await.unwrap();
    }
    until("all have ended", async || {
        let (names, _) = scene.store.schedules(None, 10).await.unwrap();
        names.is_empty()
    })
    .await;
    let id = i32::try_from(node.id().unwrap()).unwrap();
    kill(Pid::from_raw(id), Signal::SIGTERM).unwrap();
    let log = node.wait_with_output().await.unwrap().stderr;
    let log = String::from_utf8(log).unwrap();
    for (name, _, why) in cases {
        let lines = log.lines().filter(|line| {
            line.contains("the schedule ends") && line.contains(name) && line.contains(why)
        });
        assert_eq!(lines.count(), 1, "{name}: {log}");
    }
    // One that was changed meanwhile goes on.
    let (_, next) = scene
        .store
        .schedule(&every("tea", 60_000, "x"))
        .await
        .unwrap();
    let end = async |at| scene.script::<u8>("unschedule", ("tea", at)).await;
    assert_eq!((end(next - 1).await, end(next).await), (0, 1));
}

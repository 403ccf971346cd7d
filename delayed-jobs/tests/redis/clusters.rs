//! A Redis Cluster: its servers, slots that move, a server that has lost its data.

use std::sync::atomic::{AtomicBool, Ordering};

use delayed_jobs::local::RedisProcess;
use delayed_jobs::{JobId, NewJob, Settings, When};
use futures_util::future::join_all;
use serde_json::json;

use crate::servers::works;
use crate::support::{HOUR, MS, Scene, connection, job, say, settings_of, until};

/// Three servers of a cluster, each with a third of the slots.
async fn cluster(partitions: u16) -> Scene<[RedisProcess; 3]> {
    let start = async || {
        let options = ["--cluster-enabled", "yes"];
        RedisProcess::start(&options).await.unwrap()
    };
    let servers = [start().await, start().await, start().await];
    for (server, slots) in servers.iter().zip(["0 5461", "5462 10922", "10923 16383"]) {
        let _: () = say(server, &format!("CLUSTER ADDSLOTSRANGE {slots}")).await;
        let _: () = say(
            server,
            &format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port()),
        )
        .await;
    }
    until("the cluster is complete", async || {
        let mut complete = true;
        for server in &servers {
            let info: String = say(server, "CLUSTER INFO").await;
            complete &= info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3");
        }
        complete
    })
    .await;
    let settings = Settings {
        redis_cluster: true,
        partitions,
        patience: 450 * MS,
        ..settings_of(format!("{},{}", servers[1].url(), servers[2].url()))
    };
    Scene::of(servers, settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_keeps_the_partitions_apart() {
    let scene = cluster(16).await;
    let node = scene.node().await;
    works(&scene, &node).await;
    assert_eq!(
        node.get("/v1/overview").await["partitions"]
            .as_array()
            .unwrap()
            .len(),
        16
    );
    for server in &scene.redis {
        let keys: u64 = say(server, "DBSIZE").await;
        assert!(keys > 5, "a server of the cluster has {keys} keys");
    }
    assert_eq!(node.health().await, (200, json!("up")));
    // A cluster refuses a script that touches keys of two slots: the steps that `works` does not take.
    for far in scene.fill(20, HOUR).await {
        scene
            .store
            .reschedule(&far, When::After(HOUR), None)
            .await
            .unwrap();
        scene.store.cancel(&far).await.unwrap();
        scene.store.get(&far).await.unwrap();
    }
    let id = scene.create(job("poison", MS)).await;
    let mut consumer = scene.consumer().await;
    for _ in 0..2 {
        let one = [consumer.next().await];
        consumer.extend(&one, HOUR).await.unwrap();
        consumer.fail(&one, "it fails").await.unwrap();
        scene
            .store
            .reschedule(&id, When::At(0), None)
            .await
            .unwrap();
    }
}

/// The server that has a key's slot, the slot, and another server.
async fn owner_of(servers: &[RedisProcess; 3], key: &str) -> (usize, u16, usize) {
    let slot: u16 = say(&servers[0], &format!("CLUSTER KEYSLOT {key}")).await;
    let owner = usize::from(slot / 5462);
    (owner, slot, (owner + 1) % 3)
}

/// Moves a slot as `redis-cli --cluster reshard` does, slowly.
async fn move_slot(servers: &[RedisProcess; 3], slot: u16, from: usize, to: usize) {
    let name = async |of: usize| say::<String>(&servers[of], "CLUSTER MYID").await;
    let (old, new) = (name(from).await, name(to).await);
    let _: () = say(
        &servers[to],
        &format!("CLUSTER SETSLOT {slot} IMPORTING {old}"),
    )
    .await;
    let _: () = say(
        &servers[from],
        &format!("CLUSTER SETSLOT {slot} MIGRATING {new}"),
    )
    .await;
    loop {
        let keys = format!("CLUSTER GETKEYSINSLOT {slot} 20");
        let keys: Vec<String> = say(&servers[from], &keys).await;
        if keys.is_empty() {
            break;
        }
        let mut migrate = redis::cmd("MIGRATE");
        migrate
            .arg("127.0.0.1")
            .arg(servers[to].port())
            .arg("")
            .arg(0);
        migrate.arg(5_000).arg("KEYS").arg(keys);
        let mut connection = connection(&servers[from]).await;
        let _: String = migrate.query_async(&mut connection).await.unwrap();
        tokio::time::sleep(20 * MS).await;
    }
    for server in [to, from, 3 - to - from] {
        let _: () = say(
            &servers[server],
            &format!("CLUSTER SETSLOT {slot} NODE {new}"),
        )
        .await;
    }
}

/// Makes jobs, with keys and without, until it is told to end. Returns those that were accepted.
async fn make_until(scene: &Scene<[RedisProcess; 3]>, name: u8, end: &AtomicBool) -> Vec<JobId> {
    let mut ids = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let jobs = (0..20_u32).map(|n| NewJob {
            idempotency_key: (n % 2 == 0).then(|| format!("{name}-{}-{n}", ids.len())),
            ..job("x", 25 * MS * n)
        });
        let made = scene.store.create_many(jobs.collect()).await;
        ids.extend(made.into_iter().flatten().map(|one| one.id));
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_load_loses_no_job() {
    let scene = cluster(2).await;
    let _node = scene.node().await;
    scene.shared_by(1).await;
    let lease = async || scene.store.overview().await.unwrap().partitions[0].token;
    let before = lease().await;
    let (from, slot, to) = owner_of(&scene.redis, "{0}").await;
    let far = (0..500).map(|_| job("far", HOUR)).collect();
    let made = scene.store.create_many(far).await.into_iter();
    let waiting: Vec<JobId> = made.map(|one| one.unwrap().id).collect();
    let has_moved = AtomicBool::new(false);
    let moving = async {
        move_slot(&scene.redis, slot, from, to).await;
        has_moved.store(true, Ordering::Relaxed);
    };
    let makers = (0..4).map(|name| make_until(&scene, name, &has_moved));
    let (ids, ()) = tokio::join!(join_all(makers), moving);
    let ids = ids.concat();
    assert!(ids.len() > 100, "the load is too small: {}", ids.len());
    scene.shared_by(1).await;
    assert!(lease().await >= before, "tokens begin anew");
    scene.collect(&ids).await;
    for id in &waiting {
        scene.store.reschedule(id, When::At(0), None).await.unwrap();
    }
    scene.collect(&waiting).await;
    let left = scene.store.overview().await.unwrap();
    assert_eq!((left.pending, left.waiting, left.running), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty_is_noticed() {
    let scene = cluster(16).await;
    let node = scene.node().await;
    scene.shared_by(1).await;
    let lost = async || node.metric("data_lost_timestamp_seconds").await;
    assert_eq!(lost().await, 0.0);
    let (settings, ..) = owner_of(&scene.redis, "jobs:settings").await;
    let _: () = say(&scene.redis[(settings + 1) % 3], "FLUSHALL").await;
    until("the loss is noticed", async || lost().await > 0.0).await;
    let (status, health) = node.ask("GET", "/healthz", "").await;
    assert!(health["lost_ms"].as_u64().is_some(), "{status} {health}");
    assert_eq!(health["redis"], json!("up"));
    // What it has lost is set up again.
    scene.shared_by(1).await;
    let ids = scene.fill(50, MS).await;
    scene.collect(&ids).await;
}

//! Redis as people run it: with TLS, users, Sentinel, as a cluster, full, with settings from a file.

use std::path::Path;
use std::process::{Command, Stdio};

use delayed_jobs::local::{RedisGroup, RedisProcess};
use delayed_jobs::{Settings, Store, StoreError, When};
use serde_json::json;

use crate::support::{
    Api, HOUR, MS, PROGRAM, Scene, collect, consumer, fill, job, node, say, settings_of, until,
};

/// Rights that the README documents.
const RIGHTS: &str = "~jobs:* &jobs:* +@read +@write +@pubsub +@scripting +@connection -@dangerous \
                      +time +config|get +role +cluster|slots";

/// Makes jobs over HTTP and takes them.
async fn works(settings: &Settings, node: &Api) {
    let client = node.client();
    let mut ids = Vec::new();
    for n in 0..50 {
        let made = client.create(json!(n), When::After(50 * MS), Some(&format!("k{n}"))).await;
        ids.push(made.unwrap().id);
    }
    collect(&mut consumer(settings).await, &ids, 20_000 * MS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_an_own_authority_and_a_client_certificate_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    std::fs::write(file("ca.pem"), of_authority.self_signed(&authority).unwrap().pem()).unwrap();
    let issuer = rcgen::Issuer::new(of_authority, authority);
    for name in ["server", "client"] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut of_one = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        of_one.distinguished_name.push(rcgen::DnType::CommonName, name);
        let signed = of_one.signed_by(&key, &issuer).unwrap();
        std::fs::write(file(&format!("{name}.pem")), signed.pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let plain = RedisProcess::start(&[]).await.unwrap();
    let path = |name: &str| file(name).display().to_string();
    let port = plain.port() + 1;
    for (name, value) in [
        ("tls-cert-file", path("server.pem")),
        ("tls-key-file", path("server.key")),
        ("tls-ca-cert-file", path("ca.pem")),
        ("tls-port", port.to_string()),
    ] {
        let _: () = say(&plain, &format!("CONFIG SET {name} {value}")).await;
    }
    let mut settings = settings_of(format!("rediss://127.0.0.1:{port}"));
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Away(_)), "an authority that nobody knows: {refused}");
    settings.redis_ca = Some(file("ca.pem"));
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Away(_)), "no certificate of the client: {refused}");
    (settings.redis_cert, settings.redis_key) =
        (Some(file("client.pem")), Some(file("client.key")));
    works(&settings, &node(&settings).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_rights_is_enough_and_less_is_said() {
    let readme = include_str!("../../README.md");
    let documented = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    let rights = RIGHTS.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(documented.contains(&rights), "the README has other rights");
    let scene = Scene::new().await;
    let acl =
        async |words: &str| say::<()>(&scene.redis, &format!("ACL SETUSER worker {words}")).await;
    acl(&format!("on >0123 {RIGHTS}")).await;
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "wrong\n").unwrap();
    let settings = Settings {
        redis_user: Some("worker".to_owned()),
        redis_password_file: Some(password.path().to_owned()),
        ..scene.settings.clone()
    };
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
    std::fs::write(password.path(), "0123\n").unwrap();
    let node = node(&settings).await;
    works(&settings, &node).await;
    assert_eq!(node.health().await, (200, json!("up")));
    Store::open(settings.clone()).await.unwrap().overview().await.unwrap();

    // A right that only a command within the script needs.
    acl("-hset").await;
    assert_eq!(node.creates().await, (503, json!("redis_denied")));
    acl("+hset -eval").await;
    assert_eq!(node.health().await, (503, json!("denied")));

    // A new password is taken from the file, without a restart.
    acl("+eval resetpass >4567").await;
    let _: u64 = say(&scene.redis, "CLIENT KILL USER worker").await;
    until("the old password is refused", async || node.health().await == (503, json!("denied")))
        .await;
    std::fs::write(password.path(), "4567").unwrap();
    until("the new one is taken", async || node.creates().await.0 == 201).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_accepts_nothing_and_still_fires_and_ends_jobs() {
    let scene = Scene::new().await;
    let node = scene.node().await;
    scene.shared_by(1).await;
    let mut ids = scene.fill(40, 1_000 * MS).await;
    let moved = scene.create(job("x", HOUR)).await;
    let _: () = say(&scene.redis, "CONFIG SET maxmemory 1").await;
    assert_eq!(node.creates().await, (503, json!("redis_full")));
    assert_eq!(node.health().await, (503, json!("full")));
    assert!(matches!(scene.store.create(job("x", MS)).await, Err(StoreError::Full(_))));
    scene.store.reschedule(&moved, When::After(MS), None).await.unwrap();
    ids.push(moved);
    scene.collect(&ids).await;
    assert_eq!(scene.store.overview().await.unwrap().unacknowledged, 0);
    let _: () = say(&scene.redis, "CONFIG SET maxmemory 0").await;
    assert_eq!(node.creates().await.0, 201);
    assert_eq!(node.health().await, (200, json!("up")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_keeps_the_partitions_apart() {
    let start = || RedisProcess::start(&["--cluster-enabled", "yes"]);
    let servers = [start().await.unwrap(), start().await.unwrap(), start().await.unwrap()];
    for (server, slots) in servers.iter().zip(["0 5461", "5462 10922", "10923 16383"]) {
        let _: () = say(server, &format!("CLUSTER ADDSLOTSRANGE {slots}")).await;
        let _: () = say(server, &format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port())).await;
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
        partitions: 16,
        patience: 450 * MS,
        ..settings_of(format!("{},{}", servers[1].url(), servers[2].url()))
    };
    let node = node(&settings).await;
    works(&settings, &node).await;
    assert_eq!(node.get("/v1/overview").await["partitions"].as_array().unwrap().len(), 16);
    for server in &servers {
        let keys: u64 = say(server, "DBSIZE").await;
        assert!(keys > 5, "a server of the cluster has {keys} keys");
    }
    assert_eq!(node.health().await, (200, json!("up")));
    // A cluster refuses a script that touches keys of two slots: the steps that `works` does not take.
    let store = Store::open(settings.clone()).await.unwrap();
    for far in fill(&store, 20, HOUR).await {
        store.reschedule(&far, When::After(HOUR), None).await.unwrap();
        store.cancel(&far).await.unwrap();
        store.get(&far).await.unwrap();
    }
    let id = store.create(job("poison", MS)).await.unwrap().id;
    let mut consumer = consumer(&settings).await;
    for _ in 0..2 {
        let one = [consumer.next().await];
        consumer.extend(&one, HOUR).await.unwrap();
        consumer.fail(&one, "it fails").await.unwrap();
        store.reschedule(&id, When::At(0), None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinel_is_followed() {
    let mut group = RedisGroup::start().await.unwrap();
    let settings = Settings {
        redis_sentinel: group.settings().redis_sentinel,
        ..settings_of(group.settings().redis)
    };
    let node = node(&settings).await;
    works(&settings, &node).await;
    let store = Store::open(settings.clone()).await.unwrap();
    let ids = fill(&store, 100, 6_000 * MS).await;
    group.fail_over().await.unwrap();
    until("jobs are accepted by the new master", async || node.creates().await.0 == 201).await;
    let role: redis::Value = say(group.replica(), "ROLE").await;
    assert!(format!("{role:?}").contains("master"), "{role:?}");
    collect(&mut consumer(&settings).await, &ids, 20_000 * MS).await;
    assert!(group.is_watched(), "the sentinel runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_come_from_a_file_and_the_environment() {
    let redis = RedisProcess::start(&["--requirepass", "0123"]).await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("redis = '{}'\npartitions = 3\nnamespace = 'of-file'\n", redis.url());
    std::fs::write(file.path(), text).unwrap();
    let serve = |password: &str| {
        Command::new(Path::new(PROGRAM))
            .args(["serve", "--listen", "127.0.0.1:0", "--namespace", "of-line", "--config"])
            .arg(file.path())
            .env("DELAYED_JOBS_REDIS_PASSWORD", password)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let wrong = serve("123").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("Redis denies access"), "{said}");
    let mut right = serve("0123");
    let client = redis::Client::open(format!("redis://:0123@127.0.0.1:{}", redis.port())).unwrap();
    until("the node has noted its settings", async || {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let noted = redis::Cmd::hget("of-line:settings", "partitions");
        noted.query_async::<Option<u64>>(&mut connection).await.unwrap() == Some(3)
    })
    .await;
    right.kill().unwrap();
    right.wait().unwrap();
}

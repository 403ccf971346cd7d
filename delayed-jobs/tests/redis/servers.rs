//! Redis as people run it: with TLS, users, Sentinel, as a cluster, full, with settings from a file.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use delayed_jobs::local::{NodeProcess, RedisGroup, RedisProcess};
use delayed_jobs::{Client, Settings, Store, StoreError, When};
use serde_json::{Value, json};

use crate::support::{
    MS, collect, consumer, fill, job, node, redis, settings, settings_of, shared_by, until,
};

/// Rights that the README documents.
const RIGHTS: &str = "~jobs:* &jobs:* +@read +@write +@pubsub +@scripting +@connection -@dangerous \
                      +time +config|get +role +cluster|slots";

pub(crate) async fn say(
    redis: &RedisProcess,
    words: &str,
) -> Result<redis::Value, redis::RedisError> {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut words = words.split_whitespace();
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query_async(&mut connection).await
}

async fn ask(node: &NodeProcess, method: reqwest::Method, path: &str, body: &str) -> (u16, Value) {
    let request = reqwest::Client::new().request(method, format!("{}{path}", node.address()));
    let answer = request.body(body.to_owned()).send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

async fn health(node: &NodeProcess) -> (u16, String) {
    let (status, body) = ask(node, reqwest::Method::GET, "/healthz", "").await;
    (status, body["redis"].as_str().unwrap_or("none").to_owned())
}

async fn create(node: &NodeProcess) -> (u16, Value) {
    ask(node, reqwest::Method::POST, "/v1/jobs", r#"{"payload": "x", "delay": "1h"}"#).await
}

/// Makes jobs over HTTP and takes them.
async fn works(settings: &Settings, node: &NodeProcess) {
    let client = Client::new(vec![node.address().to_owned()], 15_000 * MS).unwrap();
    let mut ids = Vec::new();
    for n in 0..50 {
        let made = client.create(json!(n), When::After(50 * MS), Some(&format!("k{n}"))).await;
        ids.push(made.unwrap().id);
    }
    collect(&mut consumer(settings).await, &ids, 15_000 * MS).await;
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
    let plain = redis().await;
    let path = |name: &str| file(name).display().to_string();
    let port = plain.port() + 1;
    for (name, value) in [
        ("tls-cert-file", path("server.pem")),
        ("tls-key-file", path("server.key")),
        ("tls-ca-cert-file", path("ca.pem")),
        ("tls-port", port.to_string()),
    ] {
        say(&plain, &format!("CONFIG SET {name} {value}")).await.unwrap();
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
    let redis = redis().await;
    say(&redis, &format!("ACL SETUSER worker on >0123 {RIGHTS}")).await.unwrap();
    let password = tempfile::NamedTempFile::new().unwrap();
    writeln!(&password, "wrong").unwrap();
    let settings = Settings {
        redis_user: Some("worker".to_owned()),
        redis_password_file: Some(password.path().to_owned()),
        ..settings(&redis)
    };
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
    std::fs::write(password.path(), "0123\n").unwrap();
    let node = node(&settings).await;
    works(&settings, &node).await;
    assert_eq!(health(&node).await, (200, "up".to_owned()));
    Store::open(settings.clone()).await.unwrap().overview().await.unwrap();

    // A right that only a command within the script needs.
    say(&redis, "ACL SETUSER worker -hset").await.unwrap();
    let (status, body) = create(&node).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("redis_denied")), "{body}");
    say(&redis, "ACL SETUSER worker +hset -eval").await.unwrap();
    assert_eq!(health(&node).await, (503, "denied".to_owned()));

    // A new password is taken from the file, without a restart.
    say(&redis, "ACL SETUSER worker +eval resetpass >4567").await.unwrap();
    say(&redis, "CLIENT KILL USER worker").await.unwrap();
    until("the old password is refused", 5_000 * MS, || async {
        health(&node).await == (503, "denied".to_owned())
    })
    .await;
    std::fs::write(password.path(), "4567").unwrap();
    until("the new one is taken", 5_000 * MS, || async { create(&node).await.0 == 201 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_accepts_nothing_and_still_fires_and_ends_jobs() {
    let redis = redis().await;
    let settings = settings(&redis);
    let store = Store::open(settings.clone()).await.unwrap();
    let node = node(&settings).await;
    shared_by(&store, 1).await;
    let ids = fill(&store, 40, 1_000 * MS).await;
    let moved = store.create(job("x", 3_600_000 * MS)).await.unwrap().id;
    say(&redis, "CONFIG SET maxmemory 1").await.unwrap();
    let (status, body) = create(&node).await;
    assert_eq!((status, &body["error"]["code"]), (503, &json!("redis_full")), "{body}");
    assert_eq!(health(&node).await, (503, "full".to_owned()));
    assert!(matches!(store.create(job("x", MS)).await, Err(StoreError::Full(_))));
    collect(&mut consumer(&settings).await, &ids, 10_000 * MS).await;
    store.reschedule(&moved, When::After(MS), None).await.unwrap();
    collect(&mut consumer(&settings).await, &[moved], 10_000 * MS).await;
    assert_eq!(store.overview().await.unwrap().unacknowledged, 0);
    say(&redis, "CONFIG SET maxmemory 0").await.unwrap();
    assert_eq!(create(&node).await.0, 201);
    assert_eq!(health(&node).await, (200, "up".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_three_keeps_the_partitions_apart() {
    let servers = [cluster_server().await, cluster_server().await, cluster_server().await];
    for (server, slots) in servers.iter().zip(["0 5461", "5462 10922", "10923 16383"]) {
        say(server, &format!("CLUSTER ADDSLOTSRANGE {slots}")).await.unwrap();
        say(server, &format!("CLUSTER MEET 127.0.0.1 {}", servers[0].port())).await.unwrap();
    }
    until("the cluster is complete", 20_000 * MS, || async {
        let mut complete = 0;
        for server in &servers {
            let info: String =
                redis::from_redis_value(say(server, "CLUSTER INFO").await.unwrap()).unwrap();
            complete += usize::from(
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3"),
            );
        }
        complete == 3
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
    let (status, body) = ask(&node, reqwest::Method::GET, "/v1/overview", "").await;
    assert_eq!((status, body["partitions"].as_array().unwrap().len()), (200, 16), "{body}");
    for server in &servers {
        let keys: u64 = redis::from_redis_value(say(server, "DBSIZE").await.unwrap()).unwrap();
        assert!(keys > 5, "a server of the cluster has {keys} keys");
    }
    assert_eq!(health(&node).await, (200, "up".to_owned()));
}

async fn cluster_server() -> RedisProcess {
    RedisProcess::start(&["--cluster-enabled", "yes"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinel_is_followed() {
    let mut group = RedisGroup::start().await.unwrap();
    let settings = Settings {
        redis: group.settings().redis,
        redis_sentinel: group.settings().redis_sentinel,
        ..settings_of(String::new())
    };
    let node = node(&settings).await;
    works(&settings, &node).await;
    let store = Store::open(settings.clone()).await.unwrap();
    let ids = fill(&store, 100, 6_000 * MS).await;
    group.fail_over().await.unwrap();
    until("jobs are accepted by the new master", 30_000 * MS, || async {
        create(&node).await.0 == 201
    })
    .await;
    let role = say(group.replica(), "ROLE").await.unwrap();
    assert!(format!("{role:?}").contains("master"), "{role:?}");
    collect(&mut consumer(&settings).await, &ids, 20_000 * MS).await;
    assert!(group.is_watched(), "the sentinel runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_come_from_a_file_and_the_environment() {
    let redis = redis().await;
    say(&redis, "CONFIG SET requirepass 0123").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("redis = '{}'\npartitions = 3\nnamespace = 'of-file'\n", redis.url());
    std::fs::write(file.path(), text).unwrap();
    let serve = |password: &str, more: &[&str]| {
        Command::new(Path::new(env!("CARGO_BIN_EXE_delayed-jobs")))
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(file.path())
            .args(more)
            .env("DELAYED_JOBS_REDIS_PASSWORD", password)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let wrong = serve("123", &[]).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("Redis denies access"), "{said}");
    let mut right = serve("0123", &["--namespace", "of-line"]);
    let client = redis::Client::open(format!("redis://:0123@127.0.0.1:{}", redis.port())).unwrap();
    until("the node has noted its settings", 10_000 * MS, || async {
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let noted: Option<u64> = redis::cmd("HGET")
            .arg("of-line:settings")
            .arg("partitions")
            .query_async(&mut connection)
            .await
            .unwrap();
        noted == Some(3)
    })
    .await;
    right.kill().unwrap();
    right.wait().unwrap();
}

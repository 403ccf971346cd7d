//! Redis as people run it: old, with TLS, users, Sentinel, as a cluster, full; nodes that cannot work.

use std::process::Stdio;

use delayed_jobs::local::{RedisGroup, RedisProcess};
use delayed_jobs::{Settings, Store, StoreError, When};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::support::{
    Api, HOUR, MS, PROGRAM, Scene, collect, connection, job, node, say, settings_of, until,
};

#[tokio::test]
async fn all_nodes_must_agree() {
    let scene = Scene::new().await;
    let refused = async |settings: Settings| Store::open(settings).await.unwrap_err().to_string();
    let _: u64 = say(&scene.redis, "HSET jobs:settings layout 9").await;
    let said = refused(scene.settings.clone()).await;
    assert!(said.contains("has layout 9, not 5"), "{said}");
}

#[tokio::test]
async fn an_old_redis_is_refused_with_the_version_that_is_needed() {
    // A server that says what Redis 5 says to a script, which has no `redis.REDIS_VERSION` there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut read).await {
            let asked = String::from_utf8_lossy(&read[..count]).to_uppercase();
            let answer = match asked.contains("EVAL\r\n") {
                true => "$10\r\nbefore 7.0\r\n".to_owned(),
                false => "+OK\r\n".repeat(asked.matches("*").count().max(1)),
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let refused = Store::open(settings_of(url)).await.unwrap_err().to_string();
    assert!(
        refused.contains("Redis before 7.0 is too old: 7.0 or newer is needed"),
        "{refused}"
    );
    server.abort();
}

/// Makes jobs over HTTP and takes them.
pub(crate) async fn works<R>(scene: &Scene<R>, node: &Api) {
    let client = node.client();
    let mut ids = Vec::new();
    for n in 0..50 {
        let made = client
            .create(json!(n), When::After(50 * MS), Some(&format!("k{n}")))
            .await;
        ids.push(made.unwrap().id);
    }
    scene.collect(&ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_an_own_authority_and_a_client_certificate_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut of_authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    of_authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    std::fs::write(
        file("ca.pem"),
        of_authority.self_signed(&authority).unwrap().pem(),
    )
    .unwrap();
    let issuer = rcgen::Issuer::new(of_authority, authority);
    for name in ["server", "client"] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut of_one = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        of_one
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let signed = of_one.signed_by(&key, &issuer).unwrap();
        std::fs::write(file(&format!("{name}.pem")), signed.pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let plain = RedisProcess::start(&[]).await.unwrap();
    let port = plain.port() + 1;
    for (name, pem) in [
        ("cert", "server.pem"),
        ("key", "server.key"),
        ("ca-cert", "ca.pem"),
    ] {
        let _: () = say(
            &plain,
            &format!("CONFIG SET tls-{name}-file {}", file(pem).display()),
        )
        .await;
    }
    let _: () = say(&plain, &format!("CONFIG SET tls-port {port}")).await;
    let mut settings = settings_of(format!("rediss://127.0.0.1:{port}"));
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Away(_)),
        "an authority that nobody knows: {refused}"
    );
    settings.redis_ca = Some(file("ca.pem"));
    let refused = Store::open(settings.clone()).await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Away(_)),
        "no certificate of the client: {refused}"
    );
    (settings.redis_cert, settings.redis_key) =
        (Some(file("client.pem")), Some(file("client.key")));
    let scene = Scene::of(plain, settings).await;
    works(&scene, &scene.node().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_rights_is_enough_and_less_is_said() {
    let readme = include_str!("../../README.md");
    let rights = &readme[readme.find("~jobs:*").unwrap()..];
    let rights = &rights[..rights.find("\n\n").unwrap()];
    let scene = Scene::new().await;
    let acl = async |redis: &RedisProcess, words: &str| {
        let _: () = say(redis, &format!("ACL SETUSER worker {words}")).await;
    };
    acl(&scene.redis, &format!("on >0123 {rights}")).await;
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
    let scene = Scene::of(scene.redis, settings).await;
    let node = scene.node().await;
    works(&scene, &node).await;
    assert_eq!(node.health().await, (200, json!("up")));
    scene.store.overview().await.unwrap();

    // A right that only a command within the script needs.
    acl(&scene.redis, "-hset").await;
    assert_eq!(node.creates().await, (503, json!("redis_denied")));
    acl(&scene.redis, "+hset -eval").await;
    assert_eq!(node.health().await, (503, json!("denied")));

    // A new password is taken from the file, without a restart.
    acl(&scene.redis, "+eval resetpass >4567").await;
    let _: u64 = say(&scene.redis, "CLIENT KILL USER worker").await;
    until("the old password is refused", async || {
        node.health().await == (503, json!("denied"))
    })
    .await;
    std::fs::write(password.path(), "4567").unwrap();
    until("the new one is taken", async || {
        node.creates().await.0 == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_accepts_nothing_and_still_fires_and_ends_jobs() {
    let (scene, node) = Scene::served().await;
    assert_eq!(node.ready().await, (200, json!("up")));
    let mut logging = serve(&scene.redis.url(), &["--lease", "900ms"])
        .env("RUST_LOG", "delayed_jobs=warn")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    scene.shared_by(2).await;
    let mut ids = scene.fill(40, 1_000 * MS).await;
    let moved = scene.create(job("x", HOUR)).await;
    let tea = json!({ "every": "500ms", "queue": "tea", "overlap": "allow" });
    node.ask("PUT", "/v1/schedules/tea", &tea).await;
    let _: () = say(&scene.redis, "CONFIG SET maxmemory 1").await;
    assert_eq!(node.creates().await, (503, json!("redis_full")));
    // A schedule is accepted as jobs are.
    let (status, refused) = node.ask("PUT", "/v1/schedules/rice", &tea).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (503, &json!("redis_full"))
    );
    assert_eq!(node.health().await, (503, json!("full")));
    // A proxy goes on to send requests here, or nobody could give memory back.
    assert_eq!(node.ready().await, (200, json!("full")));
    let (_, told) = node.ask("GET", "/readyz", "").await;
    assert_eq!(told["append_only_file"], "everysec");
    until("a beat has noticed it", async || {
        node.metric("redis_full").await == 1.0
    })
    .await;
    assert!(matches!(
        scene.store.create(job("x", MS)).await,
        Err(StoreError::Full(_))
    ));
    scene
        .store
        .reschedule(&moved, When::After(MS), None)
        .await
        .unwrap();
    ids.push(moved);
    scene.collect(&ids).await;
    let left = scene.store.overview().await.unwrap();
    assert_eq!((left.waiting, left.running), (0, 0));
    // One that is there waits for room.
    node.take("&queue=tea").await;
    tokio::time::sleep(700 * MS).await;
    let last = node.get("/v1/schedules/tea").await["job"].clone();
    tokio::time::sleep(1_500 * MS).await;
    assert_eq!(node.get("/v1/schedules/tea").await["job"], last);
    let _: () = say(&scene.redis, "CONFIG SET maxmemory 0").await;
    assert_eq!(node.creates().await.0, 201);
    until("the schedule goes on", async || {
        node.get("/v1/schedules/tea").await["job"] != last
    })
    .await;
    assert_eq!(node.health().await, (200, json!("up")));
    until("a beat has noticed it", async || {
        node.metric("redis_full").await == 0.0
    })
    .await;
    tokio::time::sleep(1_000 * MS).await;
    logging.start_kill().unwrap();
    let log = logging.wait_with_output().await.unwrap().stderr;
    let log = String::from_utf8(log).unwrap();
    for what in ["no job is accepted until this ends", "Redis answers again"] {
        assert_eq!(log.matches(what).count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_evicts_gets_no_jobs() {
    let (scene, node) = Scene::served().await;
    let ids = scene.fill(10, 2_000 * MS).await;
    let mut consumer = scene.consumer().await;
    let _: () = say(&scene.redis, "CONFIG SET maxmemory-policy volatile-lru").await;
    let refused = Store::open(scene.settings.clone()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Evicts(_)), "{refused}");
    let starts = serve(&scene.redis.url(), &[]).output().await.unwrap();
    let said = String::from_utf8_lossy(&starts.stderr).into_owned();
    assert_eq!(starts.status.code(), Some(2), "{said}");
    assert!(said.contains("set `maxmemory-policy`, which is volatile-lru, to noeviction"));
    until("a beat has noticed it", async || {
        node.creates().await == (503, json!("redis_evicts"))
    })
    .await;
    let (status, refused) = node
        .ask("PUT", "/v1/schedules/tea", json!({ "every": "1h" }))
        .await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (503, &json!("redis_evicts"))
    );
    assert_eq!(node.health().await, (503, json!("evicts")));
    // Consumers empty it.
    assert_eq!(node.ready().await, (200, json!("evicts")));
    collect(&mut consumer, &ids).await;
    let _: () = say(&scene.redis, "CONFIG SET maxmemory-policy noeviction").await;
    until("a beat has noticed it", async || {
        node.creates().await.0 == 201
    })
    .await;
    assert_eq!(node.health().await, (200, json!("up")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_lacks_replicas_says_so() {
    let (scene, node) = Scene::served().await;
    let _: () = say(&scene.redis, "CONFIG SET min-replicas-to-write 1").await;
    assert_eq!(node.creates().await, (503, json!("redis_replicas")));
    assert_eq!(node.health().await, (503, json!("replicas")));
    let _: () = say(&scene.redis, "CONFIG SET min-replicas-to-write 0").await;
    assert_eq!(node.creates().await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_databases_of_a_redis_do_not_hear_each_other() {
    let small = Scene::new().await;
    let mut settings = settings_of(format!("{}/1", small.redis.url()));
    settings.partitions = 16;
    let large = Scene::of((), settings).await;
    let _nodes = (small.node().await, large.node().await);
    small.shared_by(1).await;
    large.shared_by(1).await;
    let mut consumer = small.consumer().await;
    let arrive = async {
        let id = small.create(job("heard", 500 * MS)).await;
        collect(&mut consumer, &[id]).await;
    };
    let fire = async {
        let ids = large.fill(200, 500 * MS).await;
        large.collect(&ids).await;
    };
    tokio::join!(arrive, fire);
    let mut ids = Vec::new();
    for n in 0..100 {
        let id = consumer
            .store()
            .create(job(&n.to_string(), MS))
            .await
            .unwrap()
            .id;
        assert!(
            id.partition() < 4,
            "{id} is in a partition that this database lacks"
        );
        ids.push(id);
    }
    collect(&mut consumer, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_cannot_write_refuses_everything_until_it_can() {
    let (scene, node) = Scene::served().await;
    let ids = scene.fill(20, 2_000 * MS).await;
    // Redis is told to write snapshots, and a folder is where the file would be.
    let obstacle = scene.redis.folder().join("dump.rdb");
    std::fs::create_dir(&obstacle).unwrap();
    let mut connection = connection(&scene.redis).await;
    let mut save = redis::cmd("CONFIG");
    save.arg("SET").arg("save").arg("3600 1000000");
    let _: () = save.query_async(&mut connection).await.unwrap();
    let bgsave = redis::cmd("BGSAVE");
    let _: String = bgsave.query_async(&mut connection).await.unwrap();
    until("Redis refuses", async || {
        node.creates().await == (503, json!("redis_disk"))
    })
    .await;
    assert_eq!(node.health().await, (503, json!("disk")));
    assert_eq!(node.ready().await, (503, json!("disk")));
    let (status, said) = node.ask("POST", "/v1/deliveries", "").await;
    assert_eq!(
        (status, &said["error"]["code"]),
        (503, &json!("redis_disk")),
        "not even what has fired is handed out"
    );
    std::fs::remove_dir(obstacle).unwrap();
    until("Redis writes again", async || {
        // It refuses a second one while one is under way.
        let _ = bgsave.query_async::<String>(&mut connection.clone()).await;
        node.creates().await.0 == 201
    })
    .await;
    scene.collect(&ids).await;
    until("the node is well", async || {
        node.ready().await == (200, json!("up")) && node.health().await.0 == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_by_sentinel_is_followed() {
    let group = RedisGroup::start().await.unwrap();
    let of_group = group.settings();
    let settings = Settings {
        redis_sentinel: of_group.redis_sentinel,
        ..settings_of(of_group.redis)
    };
    let mut scene = Scene::of(group, settings).await;
    let node = scene.node().await;
    works(&scene, &node).await;
    let ids = scene.fill(100, 6_000 * MS).await;
    scene.redis.fail_over().await.unwrap();
    until("jobs are accepted by the new master", async || {
        node.creates().await.0 == 201
    })
    .await;
    let role: redis::Value = say(scene.redis.replica(), "ROLE").await;
    assert!(format!("{role:?}").contains("master"), "{role:?}");
    scene.collect(&ids).await;
    assert!(scene.redis.is_watched(), "the sentinel runs");
}

/// `delayed-jobs serve` at any port.
pub(crate) fn serve(redis: &str, more: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--redis", redis])
        .args(more);
    command.kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_work_says_why_and_ends() {
    let scene = Scene::new().await;
    let locked = RedisProcess::start(&[]).await.unwrap();
    let _: () = say(&locked, "CONFIG SET requirepass 0123").await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).display().to_string()
    };
    let (good, short) = (file("good", "a key of the tests"), file("short", "x"));
    let (no_base64, none) = (file("no-base64", "whsec_???"), "/none".to_owned());
    let (misspelt, list) = (
        file("misspelt", "leese = '5s'"),
        file("list", "lease = [1]"),
    );
    let (webhook, secret, redis) = ("--webhook-url", "--webhook-secret-file", scene.redis.url());
    for (redis, more, code, hint) in [
        ("redis://127.0.0.1:1", &[][..], 3, "Redis is away"),
        (
            &locked.url(),
            &["--redis-password", "123"],
            3,
            "Redis denies access",
        ),
        (&redis, &["--lease", "99ms"], 2, "100 ms or more"),
        (&redis, &["--namespace", "a b"], 2, "letters"),
        (&redis, &["--partitions", "0"], 2, "1 to 4096"),
        (&redis, &["--patience", "0s"], 2, "patience"),
        (&redis, &["--hold", "0s"], 2, "hold"),
        (&redis, &["--tokens", &none], 2, "/none"),
        (&redis, &["--tokens", &good], 2, "good"),
        (&redis, &["--config", &none], 2, "/none"),
        (&redis, &["--config", &good], 2, "line 1"),
        (
            &redis,
            &["--config", &misspelt],
            2,
            "misspelt: there is no setting `leese`",
        ),
        (&redis, &["--config", &list], 2, "`lease` must be"),
        (
            &redis,
            &[webhook, "ftp://x", secret, &good],
            2,
            "not a URL of http",
        ),
        (
            &redis,
            &[
                webhook,
                "http://x",
                secret,
                &good,
                "--webhook-timeout",
                "18446744073709551615s",
            ],
            2,
            "at most 24h",
        ),
        (
            &redis,
            &[webhook, "http://x", secret, &short],
            2,
            "16 bytes",
        ),
        (
            &redis,
            &[webhook, "http://x", secret, &no_base64],
            2,
            "after `whsec_`",
        ),
        (&redis, &[webhook, "http://x", secret, &none], 2, "/none"),
        (&redis, &[webhook, "http://x"], 2, "webhook-secret-file"),
    ] {
        let output = tokio::time::timeout(20_000 * MS, serve(redis, more).output());
        let output = output.await.expect("a refusal").unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(code) && said.contains(hint),
            "{more:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{more:?}: it does not listen");
    }
    // The password comes by the environment, because others see the command line.
    let password = Some("0123".to_owned().into());
    let node = node(&Settings {
        redis_password: password,
        ..settings_of(locked.url())
    })
    .await;
    assert_eq!(node.health().await, (200, json!("up")));
}

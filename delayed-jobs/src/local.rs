//! Redis and nodes as processes of this machine, on the loopback interface, for tests, the demo and
//! `benches/figures.rs`. Everything ends with its owner.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::settings::Settings;

/// How long a process may take to come up.
const START: Duration = Duration::from_secs(20);

/// What to do where there is no Redis.
pub const NO_REDIS: &str = "there is no `redis-server` on the PATH: `apt-get install redis-server` \
                            (or set REDIS_SERVER to one of version 7.0 or newer, or to a valkey-server)";

/// The server's program, if it can be found.
#[must_use]
pub fn redis_program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("REDIS_SERVER") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = ["redis-server", "valkey-server"];
    let mut files =
        std::env::split_paths(&path).flat_map(|place| names.map(|name| place.join(name)));
    files.find(|file| file.is_file())
}

/// A Redis of our own, with an append-only file, in a folder that goes away with it.
#[derive(Debug)]
pub struct RedisProcess {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
    more: Vec<String>,
}

impl RedisProcess {
    /// Starts one on a free port; `more` are further options.
    ///
    /// # Errors
    ///
    /// [`NO_REDIS`], or what the system or the server says.
    pub async fn start(more: &[&str]) -> io::Result<Self> {
        // The HTTP clients of tests need it.
        crate::link::prepare_tls();
        let folder = tempfile::Builder::new().prefix("delayed-jobs-").tempdir()?;
        let port = free_port()?;
        let more: Vec<String> = more.iter().map(|&one| one.to_owned()).collect();
        let child = Self::spawn(folder.path(), port, &more)?;
        let mut redis = Self {
            child,
            port,
            folder,
            more,
        };
        redis.wait().await?;
        Ok(redis)
    }

    fn spawn(folder: &Path, port: u16, more: &[String]) -> io::Result<Child> {
        let program =
            redis_program().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, NO_REDIS))?;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join("log"))?;
        Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args([
                "--appendfsync",
                "everysec",
                "--port",
                &port.to_string(),
                "--dir",
            ])
            .arg(folder)
            .args(more)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }

    /// Waits until it answers.
    async fn wait(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while ask::<String>(self.port, &redis::cmd("PING")).await.is_err() {
            if let Some(status) = self.child.try_wait()? {
                let log = std::fs::read_to_string(self.folder.path().join("log"));
                let log = log.unwrap_or_default();
                return Err(io::Error::other(format!(
                    "redis-server ended, {status}: {log}"
                )));
            }
            next_try(start, START, "redis-server does not answer").await?;
        }
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it without warning.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Starts it again, on the same port and with what its append-only file holds.
    ///
    /// # Errors
    ///
    /// What the system or the server says.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.kill().await?;
        self.child = Self::spawn(self.folder.path(), self.port, &self.more)?;
        self.wait().await
    }
}

/// The name by which the sentinel of a [`RedisGroup`] knows the master.
const MASTER: &str = "master";

/// A master's answer to `ROLE`: what it is, its offset, and address, port and offset of each replica.
type Role = (String, u64, Vec<(String, String, u64)>);

/// A replica's answer to `ROLE`: what it is, the master's address and port, the state of the link, its own offset.
type ReplicaRole = (String, String, u16, String, u64);

/// A Redis, its replica, and a sentinel that promotes the replica when the Redis is gone.
#[derive(Debug)]
pub struct RedisGroup {
    master: RedisProcess,
    replica: RedisProcess,
    sentinel: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl RedisGroup {
    /// Starts all three, and waits until the sentinel knows the replica.
    ///
    /// # Errors
    ///
    /// [`NO_REDIS`], or what the system or a server says.
    pub async fn start() -> io::Result<Self> {
        let master = RedisProcess::start(&[]).await?;
        let of = master.port().to_string();
        let replica = RedisProcess::start(&["--replicaof", "127.0.0.1", &of]).await?;
        let (folder, port) = (tempfile::tempdir()?, free_port()?);
        let file = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {of} 1\n\
             sentinel down-after-milliseconds {MASTER} 600\nsentinel failover-timeout {MASTER} 3000\n"
        );
        std::fs::write(&file, text)?;
        let program = redis_program().unwrap_or_default();
        let mut sentinel = Command::new(program);
        sentinel
            .arg(file)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let sentinel = sentinel.kill_on_drop(true).spawn()?;
        let group = Self {
            master,
            replica,
            sentinel,
            port,
            _folder: folder,
        };
        let known = || async {
            let mut command = redis::cmd("SENTINEL");
            let replicas: Result<Vec<redis::Value>, _> =
                ask(group.port, command.arg("REPLICAS").arg(MASTER)).await;
            let role = ask::<Role>(group.master.port(), &redis::cmd("ROLE")).await;
            // Of the replicas the master names those that have all that was there before them.
            replicas.is_ok_and(|known| known.len() == 1) && role.is_ok_and(|role| role.2.len() == 1)
        };
        let start = Instant::now();
        while !known().await {
            next_try(start, START, "no sentinel answers").await?;
        }
        Ok(group)
    }

    /// Settings that lead to whoever is master; the first sentinel that they name does not exist.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            redis: format!("redis://127.0.0.1:1,redis://127.0.0.1:{}", self.port),
            redis_sentinel: Some(MASTER.to_owned()),
            ..Settings::default()
        }
    }

    /// Kills the master once the replica has all that was accepted; the sentinel does the rest.
    ///
    /// # Errors
    ///
    /// What the system or the server says.
    pub async fn fail_over(&mut self) -> io::Result<()> {
        // The sentinel's own messages wait as well: after 600 ms it takes the master for dead. So the replica is asked
        // itself; the master learns only once a second how far it is.
        let port = self.master.port();
        let mut pause = redis::cmd("CLIENT");
        let _: () = ask(port, pause.arg("PAUSE").arg(5000).arg("WRITE")).await?;
        let (_, written, _): Role = ask(port, &redis::cmd("ROLE")).await?;
        let start = Instant::now();
        while {
            let role: ReplicaRole = ask(self.replica.port(), &redis::cmd("ROLE")).await?;
            role.4 < written
        } {
            next_try(
                start,
                Duration::from_secs(4),
                "the replica does not keep up",
            )
            .await?;
        }
        self.master.kill().await
    }

    /// The server that is the replica until [`fail_over`](Self::fail_over).
    #[must_use]
    pub fn replica(&self) -> &RedisProcess {
        &self.replica
    }

    /// Whether the sentinel runs.
    pub fn is_watched(&mut self) -> bool {
        self.sentinel.try_wait().is_ok_and(|ended| ended.is_none())
    }
}

/// Waits a moment, unless what began at `start` has taken too long.
async fn next_try(start: Instant, longest: Duration, what: &str) -> io::Result<()> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    match start.elapsed() > longest {
        true => Err(io::Error::new(io::ErrorKind::TimedOut, what)),
        false => Ok(()),
    }
}

/// Asks a server of this machine.
async fn ask<T: redis::FromRedisValue>(port: u16, command: &redis::Cmd) -> io::Result<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"));
    let client = client.map_err(io::Error::other)?;
    // A busy machine takes its time.
    let patient = redis::AsyncConnectionConfig::new()
        .set_connection_timeout(Some(START))
        .set_response_timeout(Some(START));
    let connection = client.get_multiplexed_async_connection_with_config(&patient);
    let mut connection = connection.await.map_err(io::Error::other)?;
    command
        .query_async(&mut connection)
        .await
        .map_err(io::Error::other)
}

/// A node in a process of its own.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    address: String,
}

impl NodeProcess {
    /// Starts `program serve` and waits until it says where it listens. `listen` is an address with a
    /// port, which is 0 for any.
    ///
    /// # Errors
    ///
    /// What the system or the node says.
    pub async fn start(program: &Path, settings: &Settings, listen: &str) -> io::Result<Self> {
        let ms = |value: Duration| Some(format!("{}ms", value.as_millis()));
        let count = |value: Option<u64>| value.map(|n| n.to_string());
        let file = |path: &Option<PathBuf>| path.as_ref().map(|one| one.display().to_string());
        let options = [
            ("listen", Some(listen.to_owned())),
            ("redis", Some(settings.redis.clone())),
            ("redis-sentinel", settings.redis_sentinel.clone()),
            ("redis-user", settings.redis_user.clone()),
            ("redis-password-file", file(&settings.redis_password_file)),
            ("redis-ca", file(&settings.redis_ca)),
            ("redis-cert", file(&settings.redis_cert)),
            ("redis-key", file(&settings.redis_key)),
            ("namespace", Some(settings.namespace.clone())),
            ("partitions", count(Some(settings.partitions.into()))),
            ("lease", ms(settings.lease)),
            ("retention", ms(settings.retention)),
            ("dead-retention", settings.dead_retention.and_then(ms)),
            ("max-dead", count(settings.max_dead)),
            ("patience", ms(settings.patience)),
            ("max-pending", count(settings.max_pending)),
            ("max-waiting", count(settings.max_waiting)),
            ("tokens", file(&settings.tokens)),
        ];
        let options = options.into_iter();
        let mut child = Command::new(program)
            .arg("serve")
            .args(options.filter_map(|(name, value)| Some(format!("--{name}={}", value?))))
            .args(settings.redis_cluster.then_some("--redis-cluster"))
            .envs(settings.redis_password.iter().map(|secret| {
                // Others see the command line.
                ("DELAYED_JOBS_REDIS_PASSWORD", secret.reveal())
            }))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no output"))?;
        let mut lines = BufReader::new(out).lines();
        let line = tokio::time::timeout(START, lines.next_line()).await;
        let line = line.map_err(|_| io::Error::other("the node does not come up"))??;
        let address = line
            .as_deref()
            .and_then(|line| line.strip_prefix("listening on "));
        let address = address.ok_or_else(|| io::Error::other("the node ended at its start"))?;
        Ok(Self {
            child,
            address: address.to_owned(),
        })
    }

    /// The number of the process, or 0 once it has ended.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Where it serves HTTP.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Kills it without warning.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Stops it in its tracks.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub async fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        self.signal(Signal::SIGTERM);
        self.child.wait().await
    }

    fn signal(&self, signal: Signal) {
        // One that has ended needs no signal any more.
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

/// A port that nobody uses now.
fn free_port() -> io::Result<u16> {
    // Below the range that outgoing connections are given, so that none takes it meanwhile.
    let mut ports = (0..200).map(|_| fastrand::u16(10_000..30_000));
    // A server of a cluster takes a second one as well.
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let free = ports.find(|port| is_free(*port) && is_free(*port + 10_000));
    free.ok_or_else(|| io::Error::other("no free port was found from 10000 to 29999"))
}

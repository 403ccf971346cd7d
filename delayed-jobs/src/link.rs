//! One connection to Redis that many tasks share: to one server, to the master that Sentinel names, or to a
//! cluster. It is made anew after trouble, with the password that the file holds by then. A request on a
//! connection that was given up is not repeated.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::{MultiplexedConnection, PubSub};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind,
    FromRedisValue, IntoConnectionInfo, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    RedisError, RedisResult, ScriptInvocation, TlsCertificates, TlsMode, Value,
};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::time::timeout;

use crate::settings::Settings;
use crate::units::lock;

/// How often a connection that hears notices is to be checked: one that is cut without a word just falls silent.
pub(crate) const CHECK: Duration = Duration::from_millis(500);

/// So many times the patience is enough to connect to a server.
const ENOUGH: u32 = 3;

/// Locked by the task that connects; holds how the last attempt failed, and when.
type Making = tokio::sync::Mutex<Option<(Instant, RedisError)>>;

/// Makes connections, and keeps one.
pub(crate) struct Link {
    settings: Settings,
    /// As channels name it, which all databases of a server share.
    database: String,
    making: Mutex<Arc<Making>>,
    /// The kept connection, with a number that tells it from the next one.
    current: Mutex<(u64, Option<Wire>)>,
}

#[derive(Clone)]
enum Wire {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Hears notices that only the server of their slot passes on.
pub(crate) struct Shards {
    wire: ClusterConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Shards {
    pub(crate) async fn subscribe(&self, channel: String) -> RedisResult<()> {
        self.wire.clone().ssubscribe(channel).await
    }

    /// Waits for the next notice. Fails if one may have been missed: a connection has ended, or a slot has moved.
    pub(crate) async fn next(&mut self) -> RedisResult<String> {
        while let Some(push) = self.pushes.recv().await {
            match push.kind {
                PushKind::SMessage => {
                    let notice = push.data.into_iter().nth(1).unwrap_or(Value::Nil);
                    return Ok(String::from_redis_value(notice)?);
                }
                PushKind::Disconnection | PushKind::SUnsubscribe => break,
                _ => {}
            }
        }
        Err((ErrorKind::Io, "notices of a partition are not heard").into())
    }

    /// Asks each server for an answer.
    pub(crate) async fn check(&self) -> RedisResult<()> {
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let mut wire = self.wire.clone();
        wire.route_command(redis::cmd("PING"), all).await.map(drop)
    }
}

/// Chooses the cryptography of TLS for this process; a later call changes nothing.
pub(crate) fn prepare_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl Link {
    /// Reads the addresses; connects later.
    pub(crate) fn new(settings: Settings) -> RedisResult<Self> {
        let mut link = Self {
            settings,
            database: String::new(),
            making: Mutex::default(),
            current: Mutex::new((0, None)),
        };
        prepare_tls();
        let servers = link.servers()?;
        let number = servers.first().map_or(0, |one| one.redis_settings().db());
        link.database = format!("@{number}");
        link.certificates()?;
        Ok(link)
    }

    /// Ends the names of channels: `@` and the number of the database.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Carries out a command.
    pub(crate) async fn query<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let (number, mut wire) = self.connection().await?;
        let answer = match &mut wire {
            Wire::One(wire) => command.query_async(wire).await,
            Wire::Cluster(wire) => command.query_async(wire).await,
        };
        self.judge(number, answer)
    }

    /// Carries out a command that names no key on each server that takes writes.
    pub(crate) async fn query_each<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<Vec<T>> {
        let (number, mut wire) = self.connection().await?;
        let answer = match &mut wire {
            Wire::One(wire) => command.query_async(wire).await.map(|one| vec![one]),
            Wire::Cluster(wire) => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answers = wire.route_command(command.clone(), all).await;
                let of_all =
                    answers.and_then(|all| Ok(HashMap::<String, T>::from_redis_value(all)?));
                of_all.map(|all| all.into_values().collect())
            }
        };
        self.judge(number, answer)
    }

    /// Runs a script; says when the question went out.
    pub(crate) async fn invoke<T: FromRedisValue>(
        &self,
        call: &ScriptInvocation<'_>,
    ) -> RedisResult<(T, Instant)> {
        let (number, mut wire) = self.connection().await?;
        let sent = Instant::now();
        let answer = match &mut wire {
            Wire::One(wire) => call.invoke_async(wire).await,
            Wire::Cluster(wire) => call.invoke_async(wire).await,
        };
        Ok((self.judge(number, answer)?, sent))
    }

    /// Forgets the connection if it is dead, or leads to a server that takes no writes any more.
    fn judge<T>(&self, number: u64, answer: RedisResult<T>) -> RedisResult<T> {
        answer.inspect_err(|error| {
            let dead = error.is_timeout() || error.is_io_error() || error.is_connection_dropped();
            let demoted = matches!(error.code(), Some("READONLY" | "MASTERDOWN"));
            let lost = error.kind() == ErrorKind::ClusterConnectionNotFound;
            let mut current = lock(&self.current);
            if current.0 == number && (dead || demoted || lost) {
                current.1 = None;
            }
        })
    }

    /// Returns the connection; makes one if there is none.
    async fn connection(&self) -> RedisResult<(u64, Wire)> {
        let kept = || {
            let (number, wire) = lock(&self.current).clone();
            Some((number, wire?))
        };
        if let Some(kept) = kept() {
            return Ok(kept);
        }
        let asked = Instant::now();
        let mut failed = self.lock_making().await;
        if let Some(kept) = kept() {
            return Ok(kept);
        }
        // An attempt that ended meanwhile answers all that waited for it.
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| *at > asked) {
            return Err(error.clone());
        }
        let connected = self.connect().await;
        let wire =
            connected.inspect_err(|error| *failed = Some((Instant::now(), error.clone())))?;
        let mut current = lock(&self.current);
        *current = (current.0 + 1, Some(wire.clone()));
        Ok((current.0, wire))
    }

    /// Waits for the task that connects. One that takes too long is left to itself: nobody may drive its runtime.
    async fn lock_making(&self) -> OwnedMutexGuard<Option<(Instant, RedisError)>> {
        let enough = self.settings.patience.saturating_mul(ENOUGH);
        loop {
            let making = Arc::clone(&lock(&self.making));
            if let Ok(locked) = timeout(enough, Arc::clone(&making).lock_owned()).await {
                return locked;
            }
            let mut current = lock(&self.making);
            if Arc::ptr_eq(&current, &making) {
                *current = Arc::default();
            }
        }
    }

    async fn connect(&self) -> RedisResult<Wire> {
        let patience = self.settings.patience;
        if self.settings.redis_cluster {
            let client = self.cluster()?.build()?;
            return Ok(Wire::Cluster(client.get_async_connection().await?));
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(patience))
            .set_response_timeout(Some(patience));
        let client = self.client().await?;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map(Wire::One)
    }

    fn cluster(&self) -> RedisResult<ClusterClientBuilder> {
        let patience = self.settings.patience;
        let mut builder = ClusterClientBuilder::new(self.servers()?)
            .connection_timeout(patience)
            .response_timeout(patience)
            .overall_response_timeout(Some(patience));
        if let Some(certificates) = self.certificates()? {
            builder = builder.certs(certificates);
        }
        Ok(builder)
    }

    /// Opens a connection that hears notices which only the server of their slot passes on; none without a cluster.
    pub(crate) async fn shards(&self) -> RedisResult<Option<Shards>> {
        if !self.settings.redis_cluster {
            return Ok(None);
        }
        let (pushed, pushes) = mpsc::unbounded_channel();
        let builder = self.cluster()?.use_protocol(ProtocolVersion::RESP3);
        let client = builder.push_sender(pushed).build()?;
        let wire = client.get_async_connection().await?;
        Ok(Some(Shards { wire, pushes }))
    }

    /// Opens a connection that hears notices. A cluster passes each notice on to all of its servers.
    pub(crate) async fn pubsub(&self) -> RedisResult<PubSub> {
        if !self.settings.redis_cluster {
            let client = self.client().await?;
            return self.within(client.get_async_pubsub()).await;
        }
        let mut failed = None;
        for server in self.servers()? {
            let client = self.client_of(server)?;
            match self.within(client.get_async_pubsub()).await {
                Ok(opened) => return Ok(opened),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| (ErrorKind::InvalidClientConfig, "no address").into()))
    }

    /// Gives a request up if it is not answered in time: those of connections that hear notices have no limit of their
    /// own.
    pub(crate) async fn within<T>(
        &self,
        request: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let answer = timeout(self.settings.patience, request);
        answer.await.map_err(std::io::Error::from)?
    }

    /// Names the server that takes writes now.
    async fn client(&self) -> RedisResult<Client> {
        let mut servers = self.servers()?;
        if let Some(master) = &self.settings.redis_sentinel {
            return self.sentinel(servers, master)?.async_get_client().await;
        }
        match servers.pop() {
            Some(server) if servers.is_empty() => self.client_of(server),
            _ => {
                let hint = "several addresses need --redis-sentinel or --redis-cluster";
                Err((ErrorKind::InvalidClientConfig, hint).into())
            }
        }
    }

    fn client_of(&self, server: ConnectionInfo) -> RedisResult<Client> {
        match self.certificates()? {
            Some(certificates) if is_tls(server.addr()) => {
                Client::build_with_tls(server, certificates)
            }
            _ => Client::open(server),
        }
    }

    /// The addresses are those of sentinels; user and password are for the master.
    fn sentinel(
        &self,
        sentinels: Vec<ConnectionInfo>,
        master: &str,
    ) -> RedisResult<SentinelClient> {
        let tls = sentinels.iter().any(|one| is_tls(one.addr()));
        let given = self.addresses()?;
        let addresses: Vec<_> = given.iter().map(|one| one.addr().clone()).collect();
        let mut builder =
            SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?;
        // What the address itself carries is for the sentinels.
        let of_url = given.last().map(ConnectionInfo::redis_settings);
        if let Some(name) = of_url.and_then(RedisConnectionInfo::username) {
            builder = builder.set_client_to_sentinel_username(name);
        }
        if let Some(password) = of_url.and_then(RedisConnectionInfo::password) {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if let Some(of_master) = sentinels.first().map(ConnectionInfo::redis_settings) {
            builder = builder.set_client_to_redis_db(of_master.db());
        }
        let (user, password) = self.login()?;
        if let Some(user) = user {
            builder = builder.set_client_to_redis_username(user);
        }
        if let Some(password) = password {
            builder = builder.set_client_to_redis_password(password);
        }
        if tls {
            builder = builder
                .set_client_to_redis_tls_mode(TlsMode::Secure)
                .set_client_to_sentinel_tls_mode(TlsMode::Secure);
            if let Some(certificates) = self.certificates()? {
                builder = builder
                    .set_client_to_redis_certificates(certificates.clone())
                    .set_client_to_sentinel_certificates(certificates);
            }
        }
        builder.build()
    }

    /// Returns the addresses as they are given.
    fn addresses(&self) -> RedisResult<Vec<ConnectionInfo>> {
        let addresses = self.settings.redis.split(',').map(str::trim);
        addresses
            .map(IntoConnectionInfo::into_connection_info)
            .collect()
    }

    /// Returns the addresses with the user and the password of the settings.
    fn servers(&self) -> RedisResult<Vec<ConnectionInfo>> {
        let (user, password) = self.login()?;
        let of_settings = |server: ConnectionInfo| {
            let mut login = server.redis_settings().clone();
            if let Some(user) = &user {
                login = login.set_username(user);
            }
            if let Some(password) = &password {
                login = login.set_password(password);
            }
            server.set_redis_settings(login)
        };
        Ok(self.addresses()?.into_iter().map(of_settings).collect())
    }

    /// Returns user and password. The file is read each time, so that a new password needs no restart.
    fn login(&self) -> RedisResult<(Option<String>, Option<String>)> {
        let settings = &self.settings;
        let password = match &settings.redis_password_file {
            Some(file) => Some(String::from_utf8_lossy(&read(file)?).trim_end().to_owned()),
            None => settings
                .redis_password
                .as_ref()
                .map(|secret| secret.reveal().to_owned()),
        };
        Ok((settings.redis_user.clone(), password))
    }

    fn certificates(&self) -> RedisResult<Option<TlsCertificates>> {
        let settings = &self.settings;
        let root_cert = settings.redis_ca.as_deref().map(read).transpose()?;
        let client_tls = match (&settings.redis_cert, &settings.redis_key) {
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: read(cert)?,
                client_key: read(key)?,
            }),
            _ => None,
        };
        let some = root_cert.is_some() || client_tls.is_some();
        Ok(some.then_some(TlsCertificates {
            client_tls,
            root_cert,
        }))
    }
}

fn is_tls(address: &ConnectionAddr) -> bool {
    matches!(address, ConnectionAddr::TcpTls { .. })
}

fn read(file: &Path) -> RedisResult<Vec<u8>> {
    std::fs::read(file).map_err(|error| {
        let what = format!("{}: {error}", file.display());
        RedisError::from((
            ErrorKind::InvalidClientConfig,
            "a file cannot be read",
            what,
        ))
    })
}

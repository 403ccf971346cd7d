//! quinn's timeouts by our timers, over real sockets.

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig,
    TokioRuntime, TransportConfig,
};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Pinning, Timer};
use tickwheel_util::QuinnRuntime;

const LIMIT: Duration = Duration::from_millis(150);

fn engine() -> Timer {
    Builder::new().shards(1).pinning(Pinning::Off).build().unwrap()
}

fn transport(keep_alive: Option<Duration>) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(LIMIT.try_into().unwrap()));
    transport.keep_alive_interval(keep_alive);
    Arc::new(transport)
}

fn endpoint(config: Option<ServerConfig>, timer: &Timer) -> Endpoint {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let runtime = Arc::new(QuinnRuntime::on(timer.clone(), TokioRuntime));
    Endpoint::new(EndpointConfig::default(), config, socket, runtime).unwrap()
}

/// Both ends of a connection; each keeps its endpoint.
struct Ends {
    client: (Endpoint, Connection),
    server: (Endpoint, Connection),
}

impl Ends {
    async fn new(timer: &Timer, keep_alive: Option<Duration>) -> Self {
        let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let certificate = own.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
        let mut config =
            ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).unwrap();
        config.transport_config(transport(None));
        let server = endpoint(Some(config), timer);

        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        config.transport_config(transport(keep_alive));
        let mut client = endpoint(None, timer);
        client.set_default_client_config(config);

        let connecting = client.connect(server.local_addr().unwrap(), "localhost").unwrap();
        let accepted = async { server.accept().await.unwrap().await.unwrap() };
        let (from, to) = tokio::join!(connecting, accepted);
        Self { client: (client, from.unwrap()), server: (server, to) }
    }
}

/// A request and its answer over a stream of its own.
async fn talk(ends: &Ends) {
    let (mut send, mut receive) = ends.client.1.open_bi().await.unwrap();
    send.write_all(b"ping").await.unwrap();
    send.finish().unwrap();
    let (mut answer, mut request) = ends.server.1.accept_bi().await.unwrap();
    assert_eq!(request.read_to_end(16).await.unwrap(), b"ping");
    answer.write_all(b"pong").await.unwrap();
    answer.finish().unwrap();
    assert_eq!(receive.read_to_end(16).await.unwrap(), b"pong");
}

#[tokio::test]
async fn an_idle_connection_ends_at_both_ends() {
    let timer = engine();
    let ends = Ends::new(&timer, None).await;
    talk(&ends).await;
    let idle = Instant::now();
    for connection in [&ends.client.1, &ends.server.1] {
        assert_eq!(connection.closed().await, ConnectionError::TimedOut);
    }
    assert!(idle.elapsed() >= LIMIT / 2, "it was not closed before its time");
    assert!(timer.stats().fired() >= 2, "by our timers");
    drop(ends);
}

#[tokio::test]
async fn a_connection_that_is_kept_alive_stays() {
    let timer = engine();
    let ends = Ends::new(&timer, Some(LIMIT / 5)).await;
    for _ in 0..3 {
        tickwheel::sleep(LIMIT).await;
        talk(&ends).await;
    }
    assert!(ends.client.1.close_reason().is_none() && ends.server.1.close_reason().is_none());
    assert!(timer.stats().fired() >= 3, "pings by our timers");
    ends.client.1.close(0_u32.into(), b"done");
    ends.client.0.wait_idle().await;
}

#[tokio::test]
async fn without_an_engine_the_other_runtimes_timers_do_it() {
    let timer = engine();
    timer.stop().unwrap();
    let ends = Ends::new(&timer, None).await;
    talk(&ends).await;
    assert_eq!(ends.client.1.closed().await, ConnectionError::TimedOut);
    assert_eq!(timer.stats().fired(), 0);
    drop(ends.server);
}

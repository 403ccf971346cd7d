//! The timeouts of hyper's and quinn's connections by our timers, over real sockets.

use std::time::{Duration, Instant};
use tickwheel::{Builder, Pinning, Timer};

const LIMIT: Duration = Duration::from_millis(150);

fn engine() -> Timer {
    Builder::new()
        .shards(1)
        .pinning(Pinning::Off)
        .build()
        .unwrap()
}

mod http {
    use super::{Duration, Instant, LIMIT, engine};
    use http_body_util::Empty;
    use hyper::body::{Bytes, Incoming};
    use hyper::rt::{Sleep, Timer as _};
    use hyper::server::conn::{http1, http2};
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::convert::Infallible;
    use std::future::{Pending, pending};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tickwheel_util::HyperTimer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    async fn answer(_: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
        Ok(Response::new(Empty::new()))
    }

    /// Two ends of a connection.
    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    /// Serves HTTP/1 with a limit for reading headers; returns how the connection ended.
    async fn serve(stream: TcpStream, timer: HyperTimer) -> hyper::Result<()> {
        let mut builder = http1::Builder::new();
        builder.timer(timer).header_read_timeout(LIMIT);
        builder
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await
    }

    #[tokio::test]
    async fn a_client_that_never_ends_its_headers_is_cut_off() {
        let (timer, start) = (engine(), Instant::now());
        let (mut client, stream) = sockets().await;
        client
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n")
            .await
            .unwrap();
        let error = serve(stream, HyperTimer::on(timer.clone()))
            .await
            .unwrap_err();
        assert!(error.is_timeout() && start.elapsed() >= LIMIT, "{error:?}");
        assert!(timer.stats().fired >= 1);
    }

    #[tokio::test]
    async fn an_idle_connection_ends_and_a_busy_one_does_not() {
        let timer = engine();
        let (mut client, stream) = sockets().await;
        let served = tokio::spawn(serve(stream, HyperTimer::on(timer.clone())));
        let (start, mut answer) = (Instant::now(), [0; 1024]);
        let mut answered = start;
        while start.elapsed() < 3 * LIMIT {
            let asked = client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            let length = match asked.await {
                Ok(()) => client.read(&mut answer).await.unwrap_or(0),
                Err(_) => 0,
            };
            if length == 0 && answered.elapsed() >= LIMIT {
                println!(
                    "skipped: this thread was held up for as long as an idle connection lives"
                );
                return;
            }
            assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
            answered = Instant::now();
            tokio::time::sleep(LIMIT / 6).await;
        }
        let idle = Instant::now();
        assert_eq!(client.read(&mut answer).await.unwrap(), 0, "closed");
        assert!(
            idle.elapsed() >= LIMIT / 2,
            "it was not closed before its time"
        );
        drop(served.await.unwrap());
        assert_eq!(timer.pending(), 0);
    }

    #[tokio::test]
    async fn a_peer_that_answers_no_ping_is_cut_off() {
        let (mut client, stream) = sockets().await;
        let start = Instant::now();
        // The preface and an empty SETTINGS frame, and nothing more.
        client
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(HyperTimer::new())
            .keep_alive_interval(LIMIT)
            .keep_alive_timeout(LIMIT);
        let served = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
        let error = served.await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert!(start.elapsed() >= 2 * LIMIT, "an interval and a timeout");
    }

    #[tokio::test]
    async fn a_reset_moves_our_sleeps_and_replaces_others() {
        struct Foreign(Pending<()>);
        impl Sleep for Foreign {}
        impl Future for Foreign {
            type Output = ();
            fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                Pin::new(&mut self.0).poll(cx)
            }
        }
        let (timer, start) = (HyperTimer::default(), Instant::now());
        let mut own = timer.sleep(Duration::from_secs(3600));
        let place = std::ptr::from_ref(&*own).cast::<()>();
        timer.reset(&mut own, start + LIMIT);
        assert_eq!(
            std::ptr::from_ref(&*own).cast::<()>(),
            place,
            "moved in place"
        );
        let mut foreign: Pin<Box<dyn Sleep>> = Box::pin(Foreign(pending()));
        timer.reset(&mut foreign, start + LIMIT);
        own.await;
        foreign.await;
        assert!(start.elapsed() >= LIMIT);
    }

    #[tokio::test]
    async fn a_stopped_engine_ends_the_connection() {
        let (timer, (_client, stream)) = (engine(), sockets().await);
        timer.stop().unwrap();
        let error = serve(stream, HyperTimer::on(timer)).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
    }
}

mod quic {
    use super::{Duration, Instant, LIMIT, Timer, engine};
    use quinn::rustls::RootCertStore;
    use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
    use quinn::{
        ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, ServerConfig,
        TokioRuntime, TransportConfig,
    };
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::Arc;
    use tickwheel_util::QuinnRuntime;

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

    /// A client's and a server's end of a connection; each keeps its endpoint.
    async fn ends(timer: &Timer, keep_alive: Option<Duration>) -> [(Endpoint, Connection); 2] {
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

        let connecting = client
            .connect(server.local_addr().unwrap(), "localhost")
            .unwrap();
        let accepted = async { server.accept().await.unwrap().await.unwrap() };
        let (from, to) = tokio::join!(connecting, accepted);
        [(client, from.unwrap()), (server, to)]
    }

    /// A request and its answer over a stream of its own.
    async fn talk([(_, client), (_, server)]: &[(Endpoint, Connection); 2]) {
        let (mut send, mut receive) = client.open_bi().await.unwrap();
        send.write_all(b"ping").await.unwrap();
        send.finish().unwrap();
        let (mut answer, mut request) = server.accept_bi().await.unwrap();
        assert_eq!(request.read_to_end(16).await.unwrap(), b"ping");
        answer.write_all(b"pong").await.unwrap();
        answer.finish().unwrap();
        assert_eq!(receive.read_to_end(16).await.unwrap(), b"pong");
    }

    #[tokio::test]
    async fn an_idle_connection_ends_at_both_ends_with_and_without_an_engine() {
        for is_stopped in [false, true] {
            let timer = engine();
            if is_stopped {
                timer.stop().unwrap();
            }
            let ends = ends(&timer, None).await;
            talk(&ends).await;
            let idle = Instant::now();
            for (_, connection) in &ends {
                assert_eq!(connection.closed().await, ConnectionError::TimedOut);
            }
            assert!(
                idle.elapsed() >= LIMIT / 2,
                "it was not closed before its time"
            );
            let fired = timer.stats().fired;
            assert!(
                if is_stopped { fired == 0 } else { fired >= 2 },
                "{fired} by our timers"
            );
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_kept_alive_stays() {
        let timer = engine();
        let ends = ends(&timer, Some(LIMIT / 5)).await;
        for _ in 0..3 {
            tickwheel::sleep(LIMIT).await;
            talk(&ends).await;
        }
        assert!(
            ends.iter()
                .all(|(_, connection)| connection.close_reason().is_none())
        );
        assert!(timer.stats().fired >= 3, "pings by our timers");
    }
}

//! hyper's timeouts by our timers, over real sockets.

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn;
use hyper::rt::Timer as _;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Pinning, Timer};
use tickwheel_util::HyperTimer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LIMIT: Duration = Duration::from_millis(60);

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}

fn engine() -> Timer {
    Builder::new().shards(1).pinning(Pinning::Off).build().unwrap()
}

/// Two ends of a connection.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// Serves HTTP/1 with a limit for reading headers; how the connection ended.
async fn serve_http1(stream: TcpStream, timer: HyperTimer) -> hyper::Result<()> {
    let mut builder = http1::Builder::new();
    builder.timer(timer).header_read_timeout(LIMIT);
    builder.serve_connection(TokioIo::new(stream), service_fn(hello)).await
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_cut_off() {
    let timer = engine();
    let (mut client, stream) = sockets().await;
    let start = Instant::now();
    let served = tokio::spawn(serve_http1(stream, HyperTimer::on(timer.clone())));
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n").await.unwrap();
    let error = served.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(start.elapsed() >= LIMIT, "early");
    assert!(timer.stats().fired() >= 1);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn an_idle_connection_ends_and_a_busy_one_does_not() {
    let timer = engine();
    let (mut client, stream) = sockets().await;
    let served = tokio::spawn(serve_http1(stream, HyperTimer::on(timer.clone())));
    let start = Instant::now();
    let mut answer = [0; 1024];
    while start.elapsed() < 3 * LIMIT {
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let length = client.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"));
        tokio::time::sleep(LIMIT / 6).await;
    }
    let idle = Instant::now();
    assert_eq!(client.read(&mut answer).await.unwrap(), 0, "closed");
    assert!(idle.elapsed() >= LIMIT / 2, "it was not closed before its time");
    drop(served.await.unwrap());
    assert_eq!(timer.pending(), 0);
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_cut_off() {
    let timer = engine();
    let (mut client, stream) = sockets().await;
    let start = Instant::now();
    let served = tokio::spawn({
        let timer = HyperTimer::on(timer.clone());
        async move {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(timer).keep_alive_interval(LIMIT).keep_alive_timeout(LIMIT);
            builder.serve_connection(TokioIo::new(stream), service_fn(hello)).await
        }
    });
    // The preface and an empty SETTINGS frame, and nothing more.
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let error = served.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(start.elapsed() >= 2 * LIMIT, "an interval and a timeout");
    drop(client);
}

#[tokio::test]
async fn a_peer_that_answers_pings_is_kept() {
    let (client, stream) = sockets().await;
    tokio::spawn(async move {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(HyperTimer::new()).keep_alive_interval(LIMIT / 6).keep_alive_timeout(LIMIT);
        builder.serve_connection(TokioIo::new(stream), service_fn(hello)).await
    });
    let mut builder = conn::http2::Builder::new(TokioExecutor::new());
    builder.timer(HyperTimer::new()).keep_alive_interval(LIMIT / 5).keep_alive_while_idle(true);
    let (mut requests, connection) = builder.handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap();
        let body = requests.send_request(request).await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
        tokio::time::sleep(2 * LIMIT).await;
    }
}

#[tokio::test]
async fn a_reset_moves_our_sleeps_and_replaces_others() {
    struct Foreign;
    impl hyper::rt::Sleep for Foreign {}
    impl Future for Foreign {
        type Output = ();
        fn poll(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<()> {
            std::task::Poll::Pending
        }
    }
    let timer = HyperTimer::default();
    let start = Instant::now();
    let mut own = timer.sleep(Duration::from_secs(3600));
    let place = std::ptr::from_ref(&*own).cast::<()>();
    timer.reset(&mut own, start + LIMIT);
    assert_eq!(std::ptr::from_ref(&*own).cast::<()>(), place, "moved in place");
    let mut foreign: std::pin::Pin<Box<dyn hyper::rt::Sleep>> = Box::pin(Foreign);
    timer.reset(&mut foreign, start + LIMIT);
    own.await;
    foreign.await;
    assert!(start.elapsed() >= LIMIT);
}

#[tokio::test]
async fn a_stopped_engine_ends_the_connection() {
    let timer = engine();
    let (_client, stream) = sockets().await;
    timer.stop().unwrap();
    let error = serve_http1(stream, HyperTimer::on(timer)).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

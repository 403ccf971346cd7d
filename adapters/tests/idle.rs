//! Bodies that pause, over real sockets.

use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use smol::stream::unfold;
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Pinning, Timer};
use tickwheel_util::{IdleBody, IdleBodyLayer, IdleError, IdleRequestBodyLayer};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt};

const LIMIT: Duration = Duration::from_millis(80);

fn engine() -> Timer {
    Builder::new().shards(1).pinning(Pinning::Off).build().unwrap()
}

/// A frame per pause; `None` is one without an end.
fn frames(
    pauses: &'static [Option<Duration>],
) -> StreamBody<impl smol::stream::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    StreamBody::new(unfold(pauses.iter(), async |mut pauses| {
        match pauses.next()? {
            Some(pause) => tickwheel::sleep(*pause).await,
            None => std::future::pending().await,
        }
        Some((Ok(Frame::data(Bytes::from_static(b"part "))), pauses))
    }))
}

/// Asks a server whose response comes in frames, by a client that `layer` watches.
async fn ask(layer: &IdleBodyLayer, pauses: &'static [Option<Duration>]) -> IdleBody<Incoming> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    tokio::task::spawn_local(async move {
        let answer = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new(Box::pin(frames(pauses))))
        });
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), answer)
            .await
    });
    let (mut requests, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    let send = tower::service_fn(move |request| requests.send_request(request));
    let request = Request::get("/").header("host", "a").body(Empty::<Bytes>::new()).unwrap();
    layer.layer(send).oneshot(request).await.unwrap().into_body()
}

fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_body_that_stalls_is_an_error_after_its_frames() {
    on_one_thread(async {
        let (timer, start) = (engine(), Instant::now());
        let layer = IdleBodyLayer::on(timer.clone(), LIMIT);
        let mut body = ask(&layer, &[Some(Duration::ZERO), Some(Duration::ZERO), None]).await;
        let mut received = Vec::new();
        let error = loop {
            match body.frame().await.expect("it does not end") {
                Ok(frame) => received.extend(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(received, b"part part ");
        assert!(matches!(error, IdleError::Idle) && start.elapsed() >= LIMIT, "{error:?}");
        assert_eq!(timer.stats().fired(), 1);
    });
}

#[test]
fn a_body_may_take_longer_than_its_pauses() {
    on_one_thread(async {
        const PAUSE: Option<Duration> = Some(LIMIT.checked_div(4).unwrap());
        let start = Instant::now();
        let body = ask(&IdleBodyLayer::new(LIMIT), &[PAUSE; 6]).await;
        let whole = body.collect().await.unwrap().to_bytes();
        assert_eq!(whole.len(), 30);
        assert!(start.elapsed() > LIMIT, "in all it took longer than a pause may");
    });
}

#[test]
fn a_slow_reader_is_not_cut_off() {
    on_one_thread(async {
        let mut body = ask(&IdleBodyLayer::new(LIMIT / 4), &[Some(Duration::ZERO); 3]).await;
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame.unwrap().into_data().unwrap().len();
            tickwheel::sleep(LIMIT).await;
        }
        assert_eq!(length, 15);
    });
}

#[test]
fn a_body_is_passed_through_and_a_stopped_engine_is_an_error() {
    on_one_thread(async {
        let timer = engine();
        let layer = IdleBodyLayer::on(timer.clone(), LIMIT);
        let full = layer.body(http_body_util::Full::new(Bytes::from_static(b"whole")));
        assert_eq!((full.size_hint().exact(), full.is_end_stream()), (Some(5), false));
        assert_eq!(full.collect().await.unwrap().to_bytes(), "whole");
        assert_eq!(timer.stats().scheduled(), 0, "frames that are there cost no timer");
        timer.stop().unwrap();
        let mut stalled = ask(&layer, &[None]).await;
        let error = stalled.frame().await.unwrap().unwrap_err();
        assert!(matches!(error, IdleError::Sleep(_)), "{error:?}");
    });
}

#[test]
fn a_request_whose_body_stalls_is_an_error_for_its_service() {
    const HALF: &[Option<Duration>] = &[Some(Duration::ZERO), None];
    on_one_thread(async {
        let read = tower::service_fn(async |request: Request<IdleBody<_>>| {
            let body = std::pin::pin!(request.into_body());
            BodyExt::collect(body).await.map(|whole| whole.to_bytes().len())
        });
        for layer in [IdleRequestBodyLayer::new(LIMIT), IdleRequestBodyLayer::on(engine(), LIMIT)] {
            let start = Instant::now();
            let stalled = layer.layer(read).oneshot(Request::new(frames(HALF))).await;
            assert!(matches!(stalled, Err(IdleError::Idle)) && start.elapsed() >= LIMIT);
            let whole = layer.layer(read).oneshot(Request::new(frames(&HALF[..1]))).await;
            assert_eq!(whole.unwrap(), 5);
        }
    });
}

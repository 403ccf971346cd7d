//! The layers around services, in virtual time: limits of requests and bodies, and tries.

use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, StreamBody};
use smol::stream::{Stream, unfold};
use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use tickwheel::{Builder, Pinning, Time, Timer};
use tickwheel_util::layer::{
    Backoff, IdleBodyLayer, IdleError, IdleRequestBodyLayer, RequestError, RetryLayer, RetryPolicy,
    StatusTimeoutLayer, TimeoutLayer,
};
use tickwheel_util::test;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

const LIMIT: Duration = Duration::from_millis(20);
/// Shorter than the limit.
const PAUSE: Duration = Duration::from_millis(15);

/// An engine that takes no timer.
fn stopped() -> Timer {
    let timer = Builder::new()
        .shards(1)
        .pinning(Pinning::Off)
        .build()
        .unwrap();
    timer.stop().unwrap();
    timer
}

/// Answers 0 never, 1 with an error, and all others at once.
async fn answer(request: u8) -> Result<Response<u8>, &'static str> {
    match request {
        0 => pending().await,
        1 => Err("refused"),
        request => Ok(Response::new(request)),
    }
}

#[test]
fn a_layer_shows_its_service_and_comes_off() {
    let mut limited = TimeoutLayer::new(LIMIT).layer(7);
    *limited.get_mut() += 1;
    assert_eq!(*limited.get_ref(), 8);
    assert_eq!(limited.into_inner(), 8);
}

#[test]
fn an_answer_after_tries_can_be_shown() {
    let backoff = Backoff::new(LIMIT, LIMIT, 1);
    let retry = RetryLayer::new(backoff);
    let shown = format!("{:?}", retry.layer(service_fn(answer)).call(7));
    assert!(shown.contains(&format!("{backoff:?}")), "{shown}");
}

#[test]
fn late_requests_are_errors() {
    test::run(async {
        let limited = TimeoutLayer::new(LIMIT).layer(service_fn(answer));
        assert_eq!(limited.clone().oneshot(7).await.unwrap().into_body(), 7);
        let refused = limited.clone().oneshot(1).await;
        assert!(matches!(refused, Err(RequestError::Service("refused"))));
        let late = limited.oneshot(0).await;
        assert!(matches!(late, Err(RequestError::Elapsed)));
        assert_eq!(test::now(), Time::ZERO + LIMIT);

        let untimed = TimeoutLayer::on(stopped(), LIMIT).layer(service_fn(answer));
        assert!(
            untimed.clone().oneshot(7).await.is_ok(),
            "at once, so it needs no timer"
        );
        let late = untimed.oneshot(0).await;
        let Err(error @ RequestError::Sleep(_)) = late else {
            panic!("{late:?}");
        };
        assert_eq!(error.to_string(), error.source().unwrap().to_string());
    });
}

#[test]
fn late_requests_are_answered_with_a_status() {
    test::run(async {
        let status = StatusCode::GATEWAY_TIMEOUT;
        let limited = StatusTimeoutLayer::new(status, LIMIT).layer(service_fn(answer));
        assert_eq!(limited.clone().oneshot(7).await.unwrap().into_body(), 7);
        assert_eq!(limited.clone().oneshot(1).await.unwrap_err(), "refused");
        let late = limited.oneshot(0).await.unwrap();
        assert_eq!(
            (late.status(), late.into_body(), test::now()),
            (status, 0, Time::ZERO + LIMIT)
        );

        let untimed = StatusTimeoutLayer::on(stopped(), status, LIMIT).layer(service_fn(answer));
        assert!(
            untimed.clone().oneshot(7).await.is_ok(),
            "at once, so it needs no timer"
        );
        let late = untimed.oneshot(0).await.unwrap();
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

/// A body with a frame after each pause, and none any more after one without an end.
fn frames(
    pauses: &'static [Duration],
) -> StreamBody<impl Stream<Item = Result<Frame<&'static [u8]>, Infallible>>> {
    StreamBody::new(unfold(pauses.iter(), async |mut pauses| {
        tickwheel::sleep(*pauses.next()?).await;
        Some((Ok(Frame::data(b"part ".as_slice())), pauses))
    }))
}

/// Reads a body; returns how many bytes came before its end or its error.
async fn read<E>(body: impl Body<Data = &'static [u8], Error = E>) -> (usize, Result<(), E>) {
    let (mut body, mut length) = (pin!(body), 0);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => length += frame.into_data().unwrap().len(),
            Err(error) => return (length, Err(error)),
        }
    }
    (length, Ok(()))
}

#[test]
fn a_body_may_be_long_and_must_not_pause() {
    for (pauses, length, stalls, took) in [
        (&[PAUSE; 6][..], 30, false, 6 * PAUSE),
        (
            &[Duration::ZERO, PAUSE, Duration::MAX],
            10,
            true,
            PAUSE + LIMIT,
        ),
    ] {
        test::run(async {
            let answers = service_fn(async |()| Ok::<_, ()>(Response::new(frames(pauses))));
            let watched = IdleBodyLayer::new(LIMIT).layer(answers);
            let (received, end) = read(watched.oneshot(()).await.unwrap().into_body()).await;
            assert_eq!((received, test::now()), (length, Time::ZERO + took));
            assert_eq!(stalls, matches!(end, Err(IdleError::Idle)));

            // The same for a request, for which the service gets the error.
            let reader =
                service_fn(async |upload: Request<_>| Ok::<_, ()>(read(upload.into_body()).await));
            let watched = IdleRequestBodyLayer::new(LIMIT).layer(reader);
            let (received, end) = watched.oneshot(Request::new(frames(pauses))).await.unwrap();
            assert_eq!((received, test::now()), (length, Time::ZERO + 2 * took));
            assert_eq!(stalls, matches!(end, Err(IdleError::Idle)));
        });
    }
}

#[test]
fn a_slow_reader_is_not_cut_off() {
    test::run(async {
        let mut body = pin!(IdleBodyLayer::new(LIMIT).body(frames(&[PAUSE; 3])));
        for _ in 0..3 {
            tickwheel::sleep(3 * LIMIT).await;
            assert!(body.frame().await.unwrap().is_ok());
        }
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn a_body_has_a_limit_as_a_whole() {
    for (pauses, length, is_late, took) in [
        (&[PAUSE; 3][..], 15, false, 3 * PAUSE),
        (&[PAUSE; 9][..], 20, true, 4 * LIMIT - PAUSE),
    ] {
        test::run(async {
            let layer = IdleBodyLayer::new(LIMIT).whole(4 * LIMIT - PAUSE);
            let (received, end) = read(layer.body(frames(pauses))).await;
            assert_eq!((received, test::now()), (length, Time::ZERO + took));
            assert_eq!(is_late, matches!(end, Err(IdleError::Late)), "{end:?}");
        });
    }
    test::run(async {
        // A slow reader of a body whose frames are there; and without a timer.
        let layer = IdleBodyLayer::new(LIMIT).whole(2 * LIMIT);
        let mut body = pin!(layer.body(frames(&[Duration::ZERO; 9])));
        assert!(body.frame().await.unwrap().is_ok());
        tickwheel::sleep(2 * LIMIT).await;
        let late = body.frame().await.unwrap();
        assert!(matches!(late, Err(IdleError::Late)));
        let layer = IdleRequestBodyLayer::on(stopped(), LIMIT).whole(LIMIT);
        let reader =
            service_fn(async |upload: Request<_>| Ok::<_, ()>(read(upload.into_body()).await));
        let upload = Request::new(frames(&[Duration::ZERO]));
        let (received, end) = layer.layer(reader).oneshot(upload).await.unwrap();
        assert!(received == 0 && matches!(end, Err(IdleError::Sleep(_))));
    });
}

type BoxBody = http_body_util::combinators::UnsyncBoxBody<&'static [u8], BoxError>;

/// A service with boxed errors, bodies and all, of a stack below; `load_shed` and `buffer` ask for errors that can be
/// boxed of the stack that they are put on.
async fn stalls_in_a_box(request: Request<BoxBody>) -> Result<Response<BoxBody>, BoxError> {
    let _ = request.into_body().collect().await?;
    let body = frames(&[Duration::MAX]).map_err(BoxError::from);
    Ok(Response::new(BoxBody::new(body)))
}

#[tokio::test]
async fn each_layer_stacks_over_and_under_boxed_errors() {
    fn boxed<B>(body: B) -> BoxBody
    where
        B: Body<Data = &'static [u8]> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        BoxBody::new(body.map_err(Into::into))
    }
    let box_request = |request: Request<_>| request.map(boxed);
    let box_response = |response: Response<_>| response.map(boxed);
    let (limit, backoff) = (Duration::from_secs(3600), Backoff::new(LIMIT, LIMIT, 1));
    let stack = ServiceBuilder::new()
        .load_shed()
        .layer(TimeoutLayer::new(limit))
        .map_err(BoxError::from)
        .layer(StatusTimeoutLayer::new(StatusCode::GATEWAY_TIMEOUT, limit))
        .map_response(box_response)
        .layer(IdleBodyLayer::new(LIMIT))
        .layer(IdleRequestBodyLayer::new(LIMIT))
        .map_request(box_request)
        .buffer(1)
        .layer(TimeoutLayer::new(limit))
        .load_shed()
        .map_response(box_response)
        .layer(IdleBodyLayer::new(limit))
        .layer(RetryLayer::new(backoff).policy(Once))
        .service(service_fn(stalls_in_a_box));
    let request = Request::new(Full::new(b"whole".as_slice()).map_err(|end| match end {}));
    let answer = stack.oneshot(request).await.unwrap();
    let error: BoxError = answer.into_body().collect().await.unwrap_err();
    assert_eq!(error.to_string(), "the body paused for too long");
    // Of two layers the outer one has it in a box.
    assert!(error.is::<IdleError<BoxError>>());

    let shed = ServiceBuilder::new()
        .layer(TimeoutLayer::new(LIMIT))
        .layer(TimeoutLayer::new(Duration::ZERO))
        .load_shed()
        .service(service_fn(|()| pending::<Result<(), BoxError>>()));
    let late = BoxError::from(shed.oneshot(()).await.unwrap_err());
    assert_eq!(late.to_string(), "the future was not ready in time");
}

#[test]
fn a_body_that_is_there_needs_no_timer_and_one_that_stalls_does() {
    test::run(async {
        let layer = IdleBodyLayer::on(stopped(), LIMIT);
        let full = layer.body(Full::new(b"whole".as_slice()));
        assert_eq!(
            (full.size_hint().exact(), full.is_end_stream()),
            (Some(5), false)
        );
        assert!(matches!(read(full).await, (5, Ok(()))));
        assert!(layer.body(Full::new(b"".as_slice())).is_end_stream());
        let (received, end) = read(layer.body(frames(&[Duration::MAX]))).await;
        assert!(received == 0 && matches!(end, Err(IdleError::Sleep(_))));
        let reader =
            service_fn(async |upload: Request<_>| Ok::<_, ()>(read(upload.into_body()).await));
        let layer = IdleRequestBodyLayer::on(stopped(), LIMIT);
        let (_, end) = layer
            .layer(reader)
            .oneshot(Request::new(frames(&[LIMIT])))
            .await
            .unwrap();
        assert!(matches!(end, Err(IdleError::Sleep(_))));
    });
}

type Answer = Result<u8, &'static str>;

/// Tries nothing again.
#[derive(Clone)]
struct Once;

impl<Request, Response, Error> RetryPolicy<Request, Response, Error> for Once {
    fn should_retry(&self, _: &Result<Response, Error>) -> bool {
        true
    }

    fn clone_request(&self, _: &Request) -> Option<Request> {
        None
    }
}

/// Takes a refusal for an answer.
#[derive(Clone)]
struct TakesRefusal;

impl RetryPolicy<(), u8, &'static str> for TakesRefusal {
    fn should_retry(&self, answer: &Answer) -> bool {
        *answer != Err("refused")
    }

    fn clone_request(&self, (): &()) -> Option<()> {
        Some(())
    }
}

#[test]
fn a_request_is_tried_until_it_is_answered() {
    test::run(async {
        let tries = Cell::new(0);
        let moody = service_fn(async |refusals: u32| {
            tries.set(tries.get() + 1);
            if tries.get() > refusals {
                Answer::Ok(17)
            } else {
                Err("refused")
            }
        });
        let retry = RetryLayer::new(Backoff::new(LIMIT, 9 * LIMIT, 5)).layer(moody);
        assert_eq!((retry.clone().oneshot(3).await, tries.get()), (Ok(17), 4));
        let took = test::now() - Time::ZERO;
        // Pauses of half of their bounds to all of them, each with a tick.
        let bounds = LIMIT + 2 * LIMIT + 4 * LIMIT;
        assert!(took >= bounds / 2 && took <= bounds + LIMIT, "{took:?}");
        assert_eq!((retry.oneshot(3).await, tries.get()), (Ok(17), 5));
        assert_eq!(test::now() - Time::ZERO, took, "answered at once");
    });
}

#[test]
fn the_last_answer_counts_without_further_tries_a_reason_a_copy_or_a_timer() {
    let backoff = Backoff::new(LIMIT, LIMIT, 2);
    fn check<P>(layer: RetryLayer<P>, expected: u32)
    where
        P: RetryPolicy<(), u8, &'static str> + Clone,
    {
        test::run(async {
            let tries = Cell::new(0);
            let refuse = service_fn(async |()| {
                assert!(tries.replace(tries.get() + 1) < 3, "no end");
                Answer::Err("refused")
            });
            assert_eq!(
                (layer.layer(refuse).oneshot(()).await, tries.get()),
                (Err("refused"), expected)
            );
        });
    }
    check(RetryLayer::new(backoff), 3);
    check(RetryLayer::new(backoff).policy(TakesRefusal), 1);
    check(RetryLayer::new(backoff).policy(Once), 1);
    check(RetryLayer::on(stopped(), backoff), 1);
}

#[test]
fn retries_without_a_pause_of_their_own_still_yield() {
    let tries = Cell::new(0);
    let refuse = service_fn(async |()| {
        tries.set(tries.get() + 1);
        Answer::Err("refused")
    });
    let backoff = Backoff::new(Duration::ZERO, Duration::ZERO, 1_000_000);
    let retry = RetryLayer::new(backoff).layer(refuse);
    let answer = pin!(retry.oneshot(()));
    assert!(
        answer
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    // One, unless this thread was kept from running for a pause.
    assert!(tries.get() < 100);
}

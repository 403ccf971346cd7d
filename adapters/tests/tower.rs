//! The layer around services.

use http::{Response, StatusCode};
use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tickwheel::{Builder, Pinning};
use tickwheel_util::{StatusTimeoutLayer, TimeoutError, TimeoutLayer};
use tower::{Layer, ServiceExt, service_fn};

const LIMIT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn requests_are_answered_in_time_or_not_at_all() {
    let layer = TimeoutLayer::new(LIMIT);
    let echo = layer.layer(service_fn(async |request: u8| match request {
        0 => pending().await,
        1 => Err("refused"),
        request => Ok(request),
    }));
    assert_eq!(echo.clone().oneshot(7).await.unwrap(), 7);
    let Err(TimeoutError::Service(error)) = echo.clone().oneshot(1).await else {
        panic!("the service's error comes through")
    };
    assert_eq!(error, "refused");
    let start = std::time::Instant::now();
    let Err(TimeoutError::Timeout(error)) = echo.oneshot(0).await else { panic!("no answer") };
    assert!(error == tickwheel::TimeoutError::Elapsed && start.elapsed() >= LIMIT);
}

#[tokio::test]
async fn a_request_that_is_answered_at_once_costs_no_timer() {
    let timer = Builder::new().shards(1).pinning(Pinning::Off).build().unwrap();
    let layer = TimeoutLayer::on(timer.clone(), LIMIT);
    let echo = layer.layer(service_fn(async |request: u8| Ok::<_, Infallible>(request)));
    for request in 0..100 {
        assert_eq!(echo.clone().oneshot(request).await.unwrap(), request);
    }
    assert_eq!(timer.stats().scheduled(), 0);
    let slow = layer.layer(service_fn(async |_: u8| pending::<Result<u8, Infallible>>().await));
    assert!(slow.oneshot(0).await.is_err());
    assert_eq!(timer.stats().scheduled(), 1);
}

#[tokio::test]
async fn late_requests_are_answered_with_a_status() {
    let timer = Builder::new().shards(1).pinning(Pinning::Off).build().unwrap();
    let layer = StatusTimeoutLayer::on(timer.clone(), StatusCode::GATEWAY_TIMEOUT, LIMIT);
    let echo = layer.layer(service_fn(async |request: u8| match request {
        0 => pending().await,
        1 => Err("refused"),
        request => Ok(Response::new(request)),
    }));
    assert_eq!(echo.clone().oneshot(7).await.unwrap().into_body(), 7);
    assert_eq!(echo.clone().oneshot(1).await.unwrap_err(), "refused");
    let start = std::time::Instant::now();
    let late = echo.clone().oneshot(0).await.unwrap();
    assert_eq!((late.status(), *late.body()), (StatusCode::GATEWAY_TIMEOUT, 0));
    assert!(start.elapsed() >= LIMIT);
    timer.stop().unwrap();
    let untimed = echo.oneshot(0).await.unwrap();
    assert_eq!(untimed.status(), StatusCode::SERVICE_UNAVAILABLE);
    let shared = StatusTimeoutLayer::new(StatusCode::REQUEST_TIMEOUT, LIMIT);
    let slow = shared.layer(service_fn(async |_: u8| pending::<Result<Response<()>, ()>>().await));
    assert_eq!(slow.oneshot(0).await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

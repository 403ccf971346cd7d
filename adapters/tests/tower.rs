//! The layer around services.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;
use tickwheel::{Builder, Pinning};
use tickwheel_util::{TimeoutError, TimeoutLayer};
use tower::{Layer, ServiceExt, service_fn};

const LIMIT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn requests_are_answered_in_time_or_not_at_all() {
    let layer = TimeoutLayer::shared(LIMIT);
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

//! A limit for requests that answers by itself, as axum wants it.

use crate::engine::Engine;
use http::{Response, StatusCode};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{SleepError, Timeout, Timer};
use tower_layer::Layer;
use tower_service::Service;

/// Answers a request that takes too long with a status and an empty body.
///
/// The service's error stays as it is, so axum needs no `HandleErrorLayer`. A [`TimeoutLayer`](crate::TimeoutLayer)
/// returns an error instead. If the engine has no timer for a request, the answer is 503.
///
/// ```
/// use axum::{Router, http::StatusCode, routing::get};
/// use std::time::Duration;
/// use tickwheel_util::StatusTimeoutLayer;
///
/// let limit = StatusTimeoutLayer::new(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5));
/// let app: Router = Router::new().route("/", get(async || "in time")).layer(limit);
/// # drop(app);
/// ```
#[derive(Clone, Debug)]
pub struct StatusTimeoutLayer {
    status: StatusCode,
    limit: Duration,
    engine: Engine,
}

impl StatusTimeoutLayer {
    /// By the process's shared engine.
    #[must_use]
    pub const fn new(status: StatusCode, limit: Duration) -> Self {
        Self { status, limit, engine: Engine::Shared }
    }

    /// By an engine of your own.
    #[must_use]
    pub const fn on(timer: Timer, status: StatusCode, limit: Duration) -> Self {
        Self { status, limit, engine: Engine::Own(timer) }
    }
}

impl<S> Layer<S> for StatusTimeoutLayer {
    type Service = WithStatusTimeout<S>;

    fn layer(&self, inner: S) -> WithStatusTimeout<S> {
        WithStatusTimeout { inner, layer: self.clone() }
    }
}

/// A service that answers late requests itself; see [`StatusTimeoutLayer`].
#[derive(Clone, Debug)]
pub struct WithStatusTimeout<S> {
    inner: S,
    layer: StatusTimeoutLayer,
}

impl<S, Request, B: Default> Service<Request> for WithStatusTimeout<S>
where
    S: Service<Request, Response = Response<B>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = StatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer = self.layer.engine.timeout(self.layer.limit, self.inner.call(request));
        StatusFuture { answer, status: self.layer.status }
    }
}

pin_project! {
    /// The answer to one request, in time or with the status of its layer.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct StatusFuture<F> {
        #[pin]
        answer: Timeout<F, SleepError>,
        status: StatusCode,
    }
}

impl<F, B: Default, E> Future for StatusFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let status = match ready!(this.answer.poll(cx)) {
            Ok(answer) => return Poll::Ready(answer),
            Err(tickwheel::TimeoutError::Elapsed) => *this.status,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut late = Response::new(B::default());
        *late.status_mut() = status;
        Poll::Ready(Ok(late))
    }
}

//! A layer that answers late requests itself.

use super::Layered;
use crate::engine::{Engine, EngineTimeout};
use http::{Response, StatusCode};
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::Timer;
use tower_layer::Layer;
use tower_service::Service;

/// Answers a request that takes too long with a status and an empty body.
///
/// The service's error stays as it is, so axum needs no `HandleErrorLayer`. A [`TimeoutLayer`](super::TimeoutLayer)
/// returns an error instead. If the engine has no timer for a request, the answer is 503.
///
/// ```
/// use axum::{Router, http::StatusCode, routing::get};
/// use std::time::Duration;
/// use tickwheel_util::layer::StatusTimeoutLayer;
///
/// let limit = StatusTimeoutLayer::new(StatusCode::GATEWAY_TIMEOUT, Duration::from_secs(5));
/// let app: Router = Router::new().route("/", get(async || "in time")).layer(limit);
/// # drop(app);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct StatusTimeoutLayer {
    status: StatusCode,
    limit: Duration,
    engine: Engine,
}

impl StatusTimeoutLayer {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(status: StatusCode, limit: Duration) -> Self {
        Self {
            status,
            limit,
            engine: Engine::Runtimes,
        }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, status: StatusCode, limit: Duration) -> Self {
        Self {
            status,
            limit,
            engine: Engine::Own(timer),
        }
    }
}

impl<S> Layer<S> for StatusTimeoutLayer {
    type Service = Layered<S, StatusTimeoutLayer>;

    fn layer(&self, inner: S) -> Layered<S, StatusTimeoutLayer> {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, Request, B: Default> Service<Request> for Layered<S, StatusTimeoutLayer>
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
        let answer = self
            .layer
            .engine
            .timeout(self.layer.limit, self.inner.call(request));
        StatusFuture {
            answer,
            status: self.layer.status,
        }
    }
}

pin_project! {
    /// The answer to one request, in time or with the status of its layer.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct StatusFuture<F> {
        #[pin]
        answer: EngineTimeout<F>,
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
            Ok(Some(answer)) => return Poll::Ready(answer),
            Ok(None) => *this.status,
            Err(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut late = Response::new(B::default());
        *late.status_mut() = status;
        Poll::Ready(Ok(late))
    }
}

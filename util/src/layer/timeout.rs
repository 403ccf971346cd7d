//! A tower layer that limits how long a request may take.

use super::Layered;
use crate::engine::{Engine, EngineTimeout};
use pin_project_lite::pin_project;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tickwheel::{Elapsed, SleepError, Timer};
use tower_layer::Layer;
use tower_service::Service;

/// Gives each request of a service so long: after that its future is an error.
///
/// ```
/// use std::time::Duration;
/// use tickwheel_util::layer::TimeoutLayer;
/// use tower::{Layer, service_fn};
///
/// let echo = service_fn(async |request: u8| Ok::<_, std::io::Error>(request));
/// let limited = TimeoutLayer::new(Duration::from_secs(5)).layer(echo);
/// # drop(limited);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TimeoutLayer {
    limit: Duration,
    engine: Engine,
}

impl TimeoutLayer {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(limit: Duration) -> Self {
        Self {
            limit,
            engine: Engine::Runtimes,
        }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, limit: Duration) -> Self {
        Self {
            limit,
            engine: Engine::Own(timer),
        }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Layered<S, TimeoutLayer>;

    fn layer(&self, inner: S) -> Layered<S, TimeoutLayer> {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, Request> Service<Request> for Layered<S, TimeoutLayer>
where
    S: Service<Request>,
{
    type Response = S::Response;
    type Error = RequestError<S::Error>;
    type Future = LimitedFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(RequestError::Service)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (limit, answer) = (self.layer.limit, self.inner.call(request));
        let answer = self.layer.engine.timeout(limit, answer);
        LimitedFuture { answer }
    }
}

pin_project! {
    /// The answer to one request, or that it took too long.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct LimitedFuture<F> {
        #[pin]
        answer: EngineTimeout<F>,
    }
}

impl<F, R, E> Future for LimitedFuture<F>
where
    F: Future<Output = Result<R, E>>,
{
    type Output = Result<R, RequestError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().answer.poll(cx).map(|answer| match answer {
            Ok(Some(answer)) => answer.map_err(RequestError::Service),
            Ok(None) => Err(RequestError::Elapsed),
            Err(error) => Err(RequestError::Sleep(error)),
        })
    }
}

/// Why a request has no answer.
///
/// It is an [`Error`] for each `E` that can be shown, `Box<dyn Error + Send + Sync>` included, so that layers with boxed
/// errors fit above and below. Its text for [`Service`](Self::Service) is that of the service's error, which is not its
/// [`source`](Error::source).
#[derive(Debug)]
#[non_exhaustive]
pub enum RequestError<E> {
    /// It took too long.
    Elapsed,
    /// There was no timer to tell.
    Sleep(SleepError),
    /// The service's own error.
    Service(E),
}

impl<E: fmt::Display> fmt::Display for RequestError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed => Elapsed.fmt(f),
            Self::Sleep(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for RequestError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sleep(error) => Some(error),
            Self::Elapsed | Self::Service(_) => None,
        }
    }
}

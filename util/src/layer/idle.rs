//! Layers whose bodies must not pause for too long.

use super::Layered;
use crate::engine::{Engine, EngineSleep};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{SleepError, Timer};
use tower_layer::Layer;
use tower_service::Service;

/// Lets the body of each response pause for so long at most: a frame that has been waited for longer is an error.
///
/// For the client's side of a service, or a proxy's, where a response begins in time and then stalls. The same for the
/// bodies of requests: [`body`](Self::body).
///
/// A pause begins when a frame is asked for and is not there: who reads slowly is not cut off, and a body whose frames
/// are there costs no timer.
#[derive(Clone, Debug)]
#[must_use]
pub struct IdleBodyLayer {
    limit: Duration,
    whole: Option<Duration>,
    engine: Engine,
}

impl IdleBodyLayer {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(limit: Duration) -> Self {
        Self {
            limit,
            whole: None,
            engine: Engine::Runtimes,
        }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, limit: Duration) -> Self {
        Self {
            limit,
            whole: None,
            engine: Engine::Own(timer),
        }
    }

    /// Limits how long a body takes as a whole, too, from when the layer sees it to its last frame.
    ///
    /// Against a peer that sends one byte per pause. It cuts off a slow reader, too, and costs each body a timer.
    pub const fn whole(mut self, limit: Duration) -> Self {
        self.whole = Some(limit);
        self
    }

    /// A body that pauses for so long at most.
    pub fn body<B>(&self, body: B) -> IdleBody<B> {
        let idle = self.engine.sleep(self.limit);
        IdleBody {
            body,
            idle,
            whole: self.whole.map(|limit| self.engine.sleep(limit)),
            limit: self.limit,
            is_pausing: false,
        }
    }
}

impl<S> Layer<S> for IdleBodyLayer {
    type Service = Layered<S, IdleBodyLayer>;

    fn layer(&self, inner: S) -> Layered<S, IdleBodyLayer> {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, R, B> Service<R> for Layered<S, IdleBodyLayer>
where
    S: Service<R, Response = Response<B>>,
{
    type Response = Response<IdleBody<B>>;
    type Error = S::Error;
    type Future = IdleFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        IdleFuture {
            answer: self.inner.call(request),
            layer: self.layer.clone(),
        }
    }
}

/// Limits how long the body of a request may pause, as [`IdleBodyLayer`] does for answers.
///
/// The service gets an [`IdleBody`] and reads its error.
///
/// ```
/// use axum::{Router, body::Bytes, routing::post};
/// use std::time::Duration;
/// use tickwheel_util::layer::IdleRequestBodyLayer;
///
/// let app: Router = Router::new()
///     .route("/", post(async |upload: Bytes| upload.len().to_string()))
///     .layer(IdleRequestBodyLayer::new(Duration::from_secs(10)));
/// # drop(app);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct IdleRequestBodyLayer(IdleBodyLayer);

impl IdleRequestBodyLayer {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(limit: Duration) -> Self {
        Self(IdleBodyLayer::new(limit))
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, limit: Duration) -> Self {
        Self(IdleBodyLayer::on(timer, limit))
    }

    /// Limits how long a body takes as a whole, too; see [`IdleBodyLayer::whole`].
    pub const fn whole(mut self, limit: Duration) -> Self {
        self.0.whole = Some(limit);
        self
    }
}

impl<S> Layer<S> for IdleRequestBodyLayer {
    type Service = Layered<S, IdleRequestBodyLayer>;

    fn layer(&self, inner: S) -> Layered<S, IdleRequestBodyLayer> {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for Layered<S, IdleRequestBodyLayer>
where
    S: Service<Request<IdleBody<B>>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        self.inner.call(request.map(|body| self.layer.0.body(body)))
    }
}

pin_project! {
    /// The answer to one request.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct IdleFuture<F> {
        #[pin]
        answer: F,
        layer: IdleBodyLayer,
    }
}

impl<F, B, E> Future for IdleFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<IdleBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.answer.poll(cx));
        Poll::Ready(answer.map(|response| response.map(|body| this.layer.body(body))))
    }
}

pin_project! {
    /// A body that pauses for so long at most; see [`IdleBodyLayer`].
    #[derive(Debug)]
    pub struct IdleBody<B> {
        #[pin]
        body: B,
        idle: EngineSleep,
        whole: Option<EngineSleep>,
        limit: Duration,
        // A frame has been asked for and was not there.
        is_pausing: bool,
    }
}

impl<B: Body> Body for IdleBody<B> {
    type Data = B::Data;
    type Error = IdleError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let this = self.project();
        if let Some(whole) = this.whole {
            if let Poll::Ready(ended) = whole.poll_sleep(cx) {
                let error = ended.map_or_else(IdleError::Sleep, |()| IdleError::Late);
                return Poll::Ready(Some(Err(error)));
            }
        }
        if let Poll::Ready(frame) = this.body.poll_frame(cx) {
            *this.is_pausing = false;
            return Poll::Ready(frame.map(|frame| frame.map_err(IdleError::Body)));
        }
        if !std::mem::replace(this.is_pausing, true) {
            this.idle.reset(*this.limit);
        }
        let ended = ready!(this.idle.poll_sleep(cx));
        Poll::Ready(Some(Err(
            ended.map_or_else(IdleError::Sleep, |()| IdleError::Idle)
        )))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Why a body ends before its end.
///
/// It is an [`Error`] for each `E` that can be shown, `Box<dyn Error + Send + Sync>` included, so that a boxed body fits
/// inside and outside. Its text for [`Body`](Self::Body) is that of the body's own error, which is not its
/// [`source`](Error::source).
#[derive(Debug)]
#[non_exhaustive]
pub enum IdleError<E> {
    /// It paused for too long.
    Idle,
    /// It took too long as a whole.
    Late,
    /// There was no timer to tell.
    Sleep(SleepError),
    /// The body's own error.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for IdleError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("the body paused for too long"),
            Self::Late => f.write_str("the body took too long as a whole"),
            Self::Sleep(error) => error.fmt(f),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for IdleError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sleep(error) => Some(error),
            Self::Idle | Self::Late | Self::Body(_) => None,
        }
    }
}

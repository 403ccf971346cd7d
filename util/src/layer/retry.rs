//! A tower layer that tries a request again, after a pause.

use super::Layered;
use crate::engine::{Engine, EngineSleep};
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::Timer;
use tower_layer::Layer;
use tower_service::Service;

/// How often a request is tried again, and after which pauses.
///
/// The bound of a pause doubles from one to the next; the pause itself is a random time between half of its bound and
/// the whole, so that requests which failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    retries: u32,
}

impl Backoff {
    /// Allows `retries` more tries; the bound of the first pause is `first`, and none takes more than `most`.
    ///
    /// Both are raised to a millisecond if they are shorter, because tries without a pause would keep the task from
    /// ever yielding.
    #[must_use]
    pub const fn new(first: Duration, most: Duration, retries: u32) -> Self {
        Self {
            first: at_least_shortest(first),
            most: at_least_shortest(most),
            retries,
        }
    }

    /// Returns the next pause, if another try is allowed.
    fn next(&mut self, noise: u64) -> Option<Duration> {
        self.retries = self.retries.checked_sub(1)?;
        let half = self.first.min(self.most) / 2;
        self.first = self.first.saturating_mul(2);
        Some(half + half.mul_f64((noise >> 11) as f64 / (1_u64 << 53) as f64))
    }
}

/// The shortest bound of a pause.
const SHORTEST: Duration = Duration::from_millis(1);

const fn at_least_shortest(pause: Duration) -> Duration {
    if pause.as_nanos() < SHORTEST.as_nanos() {
        SHORTEST
    } else {
        pause
    }
}

/// Says which requests a [`RetryLayer`] tries again.
pub trait RetryPolicy<Request, Response, Error> {
    /// Returns whether another answer is to be asked for.
    fn should_retry(&self, answer: &Result<Response, Error>) -> bool;

    /// Returns another copy of a request, before that is sent.
    ///
    /// `None`, as for an upload that is read once: the request is sent as it is, and its first answer counts.
    fn clone_request(&self, request: &Request) -> Option<Request>;
}

/// The policy of [`RetryLayer::new`]: each error, of requests that can be cloned.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryErrors;

impl<Request: Clone, Response, Error> RetryPolicy<Request, Response, Error> for RetryErrors {
    fn should_retry(&self, answer: &Result<Response, Error>) -> bool {
        answer.is_err()
    }

    fn clone_request(&self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}

/// Tries a request again where the answer says that this may help, after a pause that doubles.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tickwheel_util::layer::{Backoff, RetryLayer};
/// use tower::{Layer, service_fn};
///
/// let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2), 4);
/// let connect = service_fn(async |host: &'static str| Ok::<_, io::Error>(host.len()));
/// let patient = RetryLayer::new(backoff).layer(connect);
/// # drop(patient);
/// ```
///
/// A policy of your own decides by the answer, or for requests that are not [`Clone`]:
///
/// ```
/// use http::{Request, Response, StatusCode};
/// # use std::time::Duration;
/// use tickwheel_util::layer::{Backoff, RetryLayer, RetryPolicy};
///
/// #[derive(Clone)]
/// struct Idempotent;
///
/// impl<B: Clone, R, E> RetryPolicy<Request<B>, Response<R>, E> for Idempotent {
///     fn should_retry(&self, answer: &Result<Response<R>, E>) -> bool {
///         answer
///             .as_ref()
///             .map_or(true, |answer| answer.status() == StatusCode::SERVICE_UNAVAILABLE)
///     }
///
///     fn clone_request(&self, request: &Request<B>) -> Option<Request<B>> {
///         request.method().is_idempotent().then(|| request.clone())
///     }
/// }
///
/// # let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2), 4);
/// let retry = RetryLayer::new(backoff).policy(Idempotent);
/// # drop::<RetryLayer<_>>(retry);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RetryLayer<P = RetryErrors> {
    backoff: Backoff,
    policy: P,
    engine: Engine,
}

impl RetryLayer {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            policy: RetryErrors,
            engine: Engine::Runtimes,
        }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, backoff: Backoff) -> Self {
        Self {
            backoff,
            policy: RetryErrors,
            engine: Engine::Own(timer),
        }
    }
}

impl<P> RetryLayer<P> {
    /// Lets `policy` say which requests are tried again.
    pub fn policy<Q>(self, policy: Q) -> RetryLayer<Q> {
        RetryLayer {
            backoff: self.backoff,
            policy,
            engine: self.engine,
        }
    }
}

impl<S, P: Clone> Layer<S> for RetryLayer<P> {
    type Service = Layered<S, Self>;

    fn layer(&self, inner: S) -> Self::Service {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, P, Request> Service<Request> for Layered<S, RetryLayer<P>>
where
    S: Service<Request> + Clone,
    P: RetryPolicy<Request, S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, P, Request>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The one that was found ready answers first; this one is asked anew before the next request.
        let fresh = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, fresh);
        let layer = self.layer.clone();
        let copy = layer.policy.clone_request(&request);
        let answer = service.call(request);
        RetryFuture {
            service,
            layer,
            copy,
            stage: RetryStage::Asked { answer },
        }
    }
}

pin_project! {
    /// The answer to one request, after as many tries as it took.
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct RetryFuture<S, P, Request>
    where
        S: Service<Request>,
    {
        service: S,
        // Its backoff counts down.
        layer: RetryLayer<P>,
        // For the next try, if there may be one.
        copy: Option<Request>,
        #[pin]
        stage: RetryStage<S::Future, Result<S::Response, S::Error>>,
    }
}

impl<S, P, Request> fmt::Debug for RetryFuture<S, P, Request>
where
    S: Service<Request>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of the policy, the service and the answer nothing is known.
        f.debug_struct("RetryFuture")
            .field("backoff", &self.layer.backoff)
            .finish_non_exhaustive()
    }
}

pin_project! {
    #[project = RetryStageNow]
    enum RetryStage<F, A> {
        Asked { #[pin] answer: F },
        // The answer counts if there is no timer for the pause.
        Pausing { sleep: EngineSleep, answer: Option<A> },
        Readying,
    }
}

impl<S, P, Request> Future for RetryFuture<S, P, Request>
where
    S: Service<Request>,
    P: RetryPolicy<Request, S::Response, S::Error>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                RetryStageNow::Asked { answer } => {
                    let answer = ready!(answer.poll(cx));
                    let RetryLayer {
                        backoff,
                        policy,
                        engine,
                    } = &mut *this.layer;
                    let noise = RandomState::new().hash_one(());
                    let pause = if this.copy.is_some() && policy.should_retry(&answer) {
                        backoff.next(noise)
                    } else {
                        None
                    };
                    let Some(pause) = pause else {
                        return Poll::Ready(answer);
                    };
                    let sleep = engine.sleep(pause);
                    RetryStage::Pausing {
                        sleep,
                        answer: Some(answer),
                    }
                }
                RetryStageNow::Pausing { sleep, answer } => {
                    if ready!(sleep.poll_sleep(cx)).is_err() {
                        return Poll::Ready(answer.take().expect("not polled after its end"));
                    }
                    RetryStage::Readying
                }
                RetryStageNow::Readying => match ready!(this.service.poll_ready(cx)) {
                    Ok(()) => {
                        let request = this.copy.take().expect("kept for this try");
                        *this.copy = this.layer.policy.clone_request(&request);
                        RetryStage::Asked {
                            answer: this.service.call(request),
                        }
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            this.stage.set(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_lie_in_the_upper_half_of_bounds_that_double_up_to_the_most() {
        let ms = Duration::from_millis;
        for (noise, expected) in [(0, [5, 10, 20, 32, 32]), (1 << 63, [7, 15, 30, 48, 48])] {
            let mut backoff = Backoff::new(ms(10), ms(65), 5);
            let pauses = [(); 5].map(|()| backoff.next(noise).unwrap().as_millis());
            assert_eq!((pauses, backoff.next(noise)), (expected, None));
        }
        let longest = Backoff::new(ms(20), ms(65), 1).next(u64::MAX).unwrap();
        assert!(longest > ms(19) && longest <= ms(20));
        assert!(
            Backoff::new(Duration::MAX, Duration::MAX, 1)
                .next(u64::MAX)
                .is_some()
        );
    }

    #[test]
    fn bounds_double_until_the_most_however_small_the_first_is() {
        let most = Duration::from_secs(100_000_000);
        let mut backoff = Backoff::new(Duration::from_millis(1), most, 99);
        for pauses in 0..37 {
            assert_eq!(
                backoff.next(0),
                Some(Duration::from_micros(500 << pauses)),
                "{pauses}"
            );
        }
        assert_eq!([backoff.next(0), backoff.next(0)], [Some(most / 2); 2]);
    }

    #[test]
    fn no_pause_is_too_short_to_yield() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::from_nanos(1), 9);
        assert_eq!([backoff.next(0), backoff.next(0)], [Some(SHORTEST / 2); 2]);
    }
}

//! A tower layer that tries a request again, after a pause.

use crate::Layered;
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

/// Tries a request again where the answer says that this may help, after a pause that doubles.
///
/// Two functions decide: `again` says of an answer whether another one is to be asked for, and `clone` returns another
/// copy of a request before it is sent. If `clone` returns `None`, as for an upload that is read once, the request is
/// sent as it is and its first answer counts.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tickwheel_util::{Backoff, RetryLayer};
/// use tower::{Layer, service_fn};
///
/// let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2), 4);
/// let failed = |answer: &Result<u8, io::Error>| answer.is_err();
/// let retry = RetryLayer::new(backoff, failed, |host: &&'static str| Some(*host));
/// let connect = service_fn(async |host: &'static str| Ok::<_, io::Error>(host.len() as u8));
/// let patient = retry.layer(connect);
/// # drop(patient);
/// ```
#[derive(Clone, Debug)]
pub struct RetryLayer<P, C> {
    backoff: Backoff,
    again: P,
    clone: C,
    engine: Engine,
}

impl<P, C> RetryLayer<P, C> {
    /// By the runtime's engine, or the process's; see [`time`](crate::time).
    pub const fn new(backoff: Backoff, again: P, clone: C) -> Self {
        Self {
            backoff,
            again,
            clone,
            engine: Engine::Runtimes,
        }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, backoff: Backoff, again: P, clone: C) -> Self {
        Self {
            backoff,
            again,
            clone,
            engine: Engine::Own(timer),
        }
    }
}

impl<S, P: Clone, C: Clone> Layer<S> for RetryLayer<P, C> {
    type Service = WithRetries<S, P, C>;

    fn layer(&self, inner: S) -> WithRetries<S, P, C> {
        Layered {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose requests are tried again; see [`RetryLayer`].
pub type WithRetries<S, P, C> = Layered<S, RetryLayer<P, C>>;

impl<S, P, C, Request> Service<Request> for WithRetries<S, P, C>
where
    S: Service<Request> + Clone,
    P: Fn(&Result<S::Response, S::Error>) -> bool + Clone,
    C: Fn(&Request) -> Option<Request> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RetryFuture<S, P, C, Request>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The one that was found ready answers first; this one is asked anew before the next request.
        let fresh = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, fresh);
        let layer = self.layer.clone();
        let copy = (layer.clone)(&request);
        let answer = service.call(request);
        RetryFuture {
            service,
            layer,
            copy,
            stage: Stage::Asked { answer },
        }
    }
}

pin_project! {
    /// The answer to one request, after as many tries as it took.
    #[must_use = "futures do nothing unless they are awaited or polled"]
    pub struct RetryFuture<S, P, C, Request>
    where
        S: Service<Request>,
    {
        service: S,
        // Its backoff counts down.
        layer: RetryLayer<P, C>,
        // For the next try, if there may be one.
        copy: Option<Request>,
        #[pin]
        stage: Stage<S::Future, Result<S::Response, S::Error>>,
    }
}

impl<S, P, C, Request> fmt::Debug for RetryFuture<S, P, C, Request>
where
    S: Service<Request>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of the functions, the service and the answer nothing is known.
        f.debug_struct("RetryFuture")
            .field("backoff", &self.layer.backoff)
            .finish_non_exhaustive()
    }
}

pin_project! {
    #[project = StageNow]
    enum Stage<F, A> {
        Asked { #[pin] answer: F },
        // The answer counts if there is no timer for the pause.
        Pausing { sleep: EngineSleep, answer: Option<A> },
        Readying,
    }
}

impl<S, P, C, Request> Future for RetryFuture<S, P, C, Request>
where
    S: Service<Request>,
    P: Fn(&Result<S::Response, S::Error>) -> bool,
    C: Fn(&Request) -> Option<Request>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageNow::Asked { answer } => {
                    let answer = ready!(answer.poll(cx));
                    let RetryLayer {
                        backoff,
                        again,
                        engine,
                        ..
                    } = &mut *this.layer;
                    let noise = RandomState::new().hash_one(());
                    let pause = if this.copy.is_some() && again(&answer) {
                        backoff.next(noise)
                    } else {
                        None
                    };
                    let Some(pause) = pause else {
                        return Poll::Ready(answer);
                    };
                    let sleep = engine.sleep(pause);
                    Stage::Pausing {
                        sleep,
                        answer: Some(answer),
                    }
                }
                StageNow::Pausing { sleep, answer } => {
                    if ready!(sleep.poll_sleep(cx)).is_err() {
                        return Poll::Ready(answer.take().expect("not polled after its end"));
                    }
                    Stage::Readying
                }
                StageNow::Readying => match ready!(this.service.poll_ready(cx)) {
                    Ok(()) => {
                        let request = this.copy.take().expect("kept for this try");
                        *this.copy = (this.layer.clone)(&request);
                        Stage::Asked {
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

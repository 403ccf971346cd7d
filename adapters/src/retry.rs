//! A tower layer that tries a request again, after a pause.

use crate::engine::Engine;
use pin_project_lite::pin_project;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{Sleep, SleepError, Timer};
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
        Self { first: at_least_shortest(first), most: at_least_shortest(most), retries }
    }

    /// Returns the bound of the pause that follows `pauses` others.
    fn bound(&self, pauses: u32) -> Duration {
        let (first, most) = (self.first.as_nanos(), self.most.as_nanos());
        if first > most.checked_shr(pauses).unwrap_or(0) {
            return self.most;
        }
        // Fits, because it is not above `most`.
        let bound = first << pauses;
        let second = Duration::from_secs(1).as_nanos();
        Duration::new((bound / second) as u64, (bound % second) as u32)
    }

    /// Returns the pause that follows `pauses` others.
    fn pause(&self, pauses: u32, noise: u64) -> Duration {
        let half = self.bound(pauses) / 2;
        half + half.mul_f64((noise >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// The shortest bound of a pause.
const SHORTEST: Duration = Duration::from_millis(1);

const fn at_least_shortest(pause: Duration) -> Duration {
    if pause.as_nanos() < SHORTEST.as_nanos() { SHORTEST } else { pause }
}

/// Tries a request again where the answer says that this may help, after a pause that doubles.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tickwheel_util::{Backoff, RetryLayer};
/// use tower::{Layer, service_fn};
///
/// let backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2), 4);
/// let retry = RetryLayer::new(backoff, |answer: &Result<u8, io::Error>| answer.is_err());
/// let connect = service_fn(async |host: &'static str| Ok::<_, io::Error>(host.len() as u8));
/// let patient = retry.layer(connect);
/// # drop(patient);
/// ```
#[derive(Clone, Debug)]
pub struct RetryLayer<P> {
    backoff: Backoff,
    again: P,
    engine: Engine,
}

impl<P> RetryLayer<P> {
    /// By the process's shared engine; `again` says of an answer whether another one is to be asked for.
    pub const fn new(backoff: Backoff, again: P) -> Self {
        Self { backoff, again, engine: Engine::Shared }
    }

    /// By an engine of your own.
    pub const fn on(timer: Timer, backoff: Backoff, again: P) -> Self {
        Self { backoff, again, engine: Engine::Own(timer) }
    }
}

impl<S, P: Clone> Layer<S> for RetryLayer<P> {
    type Service = WithRetries<S, P>;

    fn layer(&self, inner: S) -> WithRetries<S, P> {
        WithRetries { inner, layer: self.clone() }
    }
}

/// A service whose requests are tried again; see [`RetryLayer`].
#[derive(Clone, Debug)]
pub struct WithRetries<S, P> {
    inner: S,
    layer: RetryLayer<P>,
}

impl<S, P, Request> Service<Request> for WithRetries<S, P>
where
    S: Service<Request> + Clone,
    P: Fn(&Result<S::Response, S::Error>) -> bool + Clone,
    Request: Clone,
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
        let stage = Stage::Asked { answer: service.call(request.clone()) };
        RetryFuture { service, layer: self.layer.clone(), request, pauses: 0, stage }
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
        layer: RetryLayer<P>,
        request: Request,
        pauses: u32,
        #[pin]
        stage: Stage<S::Future, Result<S::Response, S::Error>>,
    }
}

pin_project! {
    #[project = StageNow]
    enum Stage<F, A> {
        Asked { #[pin] answer: F },
        // The answer counts if there is no timer for the pause.
        Pausing { sleep: Sleep<SleepError>, answer: Option<A> },
        Readying,
    }
}

impl<S, P, Request> Future for RetryFuture<S, P, Request>
where
    S: Service<Request>,
    P: Fn(&Result<S::Response, S::Error>) -> bool,
    Request: Clone,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageNow::Asked { answer } => {
                    let answer = ready!(answer.poll(cx));
                    let RetryLayer { backoff, again, engine } = &*this.layer;
                    if *this.pauses >= backoff.retries || !again(&answer) {
                        return Poll::Ready(answer);
                    }
                    let noise = RandomState::new().hash_one(*this.pauses);
                    let sleep = engine.sleep(backoff.pause(*this.pauses, noise));
                    *this.pauses += 1;
                    Stage::Pausing { sleep, answer: Some(answer) }
                }
                StageNow::Pausing { sleep, answer } => match ready!(sleep.poll_sleep(cx)) {
                    Ok(()) => Stage::Readying,
                    Err(_) => match answer.take() {
                        Some(answer) => return Poll::Ready(answer),
                        None => Stage::Readying,
                    },
                },
                StageNow::Readying => match ready!(this.service.poll_ready(cx)) {
                    Ok(()) => Stage::Asked { answer: this.service.call(this.request.clone()) },
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
    fn bounds_double_up_to_the_most_and_pauses_lie_in_their_upper_half() {
        let ms = Duration::from_millis;
        let backoff = Backoff::new(ms(10), ms(65), 9);
        let bounds = [0, 1, 2, 3, 31, 32, u32::MAX].map(|pauses| backoff.bound(pauses));
        assert_eq!(bounds, [ms(10), ms(20), ms(40), ms(65), ms(65), ms(65), ms(65)]);
        assert_eq!(backoff.pause(1, 0), ms(10));
        assert_eq!(backoff.pause(1, 1 << 63), ms(15));
        let longest = backoff.pause(1, u64::MAX);
        assert!(longest > ms(19) && longest <= ms(20));
        let endless = Backoff::new(Duration::MAX, Duration::MAX, 1);
        assert!(endless.pause(40, u64::MAX) <= Duration::MAX);
    }

    #[test]
    fn bounds_double_until_the_most_however_small_the_first_is() {
        let most = Duration::from_secs(100_000_000);
        let backoff = Backoff::new(Duration::from_millis(1), most, 99);
        for pauses in 0..36 {
            assert_eq!(backoff.bound(pauses + 1), backoff.bound(pauses) * 2, "{pauses}");
        }
        assert_eq!([backoff.bound(37), backoff.bound(200)], [most; 2]);
        assert_eq!(backoff.bound(36), Duration::from_millis(1 << 36));
    }

    #[test]
    fn no_pause_is_too_short_to_yield() {
        let backoff = Backoff::new(Duration::ZERO, Duration::from_nanos(1), 9);
        assert_eq!(backoff.bound(0), SHORTEST);
        assert_eq!(backoff.pause(3, 0), SHORTEST / 2);
    }
}

//! Streams of ticks, limits of time for streams, and `Stream` for [`DelayQueue`].

use crate::DelayQueue;
use crate::engine::RuntimeSleep;
use crate::local::{LocalInterval, LocalSleep, LocalSleeps};
use crate::time;
use futures_core::stream::{FusedStream, Stream};
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{Elapsed, Expired, Interval, SleepError, Time, TimeoutError};

/// Turns an interval into a `Stream`: one tick after the other, without an end.
///
/// For [`time::Interval`], whose items are the instants at which its ticks were due, for tickwheel's [`Interval`], whose
/// items are times on its engine's clock, and for [`LocalInterval`].
///
/// ```
/// use futures_lite::StreamExt as _;
/// use std::time::Duration;
/// use tickwheel_util::stream::IntervalStream;
/// use tickwheel_util::time;
///
/// # smol::block_on(async {
/// let mut beats = IntervalStream::new(time::interval(Duration::from_millis(2)));
/// let first = beats.next().await.unwrap();
/// assert_eq!(beats.next().await, Some(first + Duration::from_millis(2)));
/// assert_eq!(beats.into_inner().period(), Duration::from_millis(2));
/// # });
/// ```
#[derive(Debug)]
#[must_use = "streams do nothing unless they are polled"]
pub struct IntervalStream<I = time::Interval> {
    interval: I,
}

impl<I> IntervalStream<I> {
    /// Makes a stream of an interval's ticks.
    pub const fn new(interval: I) -> Self {
        Self { interval }
    }

    /// Returns the interval.
    pub fn into_inner(self) -> I {
        self.interval
    }
}

impl<I> AsRef<I> for IntervalStream<I> {
    fn as_ref(&self) -> &I {
        &self.interval
    }
}

/// For `reset` and the like while the stream is in use.
impl<I> AsMut<I> for IntervalStream<I> {
    fn as_mut(&mut self) -> &mut I {
        &mut self.interval
    }
}

impl Stream for IntervalStream {
    type Item = time::Instant;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl Stream for IntervalStream<Interval> {
    type Item = Time;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Time>> {
        pin!(self.interval.tick()).poll(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl Stream for IntervalStream<Interval<SleepError>> {
    type Item = Result<Time, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl Stream for IntervalStream<LocalInterval> {
    type Item = Result<Time, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// It never ends.
impl<I> FusedStream for IntervalStream<I>
where
    Self: Stream,
{
    fn is_terminated(&self) -> bool {
        false
    }
}

/// The sleep of a stream: an engine's, or a thread's own.
pub trait Pause {
    /// Why it cannot go on.
    type Error;

    /// Begins anew.
    fn reset(&mut self, pause: Duration);

    /// Tells when it is over.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>>;
}

impl Pause for RuntimeSleep {
    type Error = Infallible;

    fn reset(&mut self, pause: Duration) {
        (***self).reset(pause);
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.poll(cx).map(Ok)
    }
}

impl Pause for LocalSleep {
    type Error = SleepError;

    fn reset(&mut self, pause: Duration) {
        Self::reset(self, pause);
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SleepError>> {
        self.poll_sleep(cx)
    }
}

/// Like [`poll_expired`](DelayQueue::poll_expired): `None` while the queue is empty, which need not be the end.
impl<T> Stream for DelayQueue<T> {
    type Item = Result<Expired<T>, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_expired(cx)
    }
}

/// Adds limits of time to every stream.
///
/// Those without `_on` use the engine of the runtime or the process's, whose workers they start. In a runtime of one
/// thread with a [`LocalSleeps`] use the others; their items say if `max_pending` timers are armed there.
pub trait StreamExt: Stream + Sized {
    /// Yields an error when the stream has paused for `limit`, once per pause.
    ///
    /// A stream that has ended is not polled again.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # smol::block_on(async {
    /// let items = stream::once(1).chain(stream::pending());
    /// let mut limited = std::pin::pin!(items.timeout(Duration::from_millis(2)));
    /// assert_eq!(limited.next().await, Some(Ok(1)));
    /// assert!(limited.next().await.unwrap().is_err());
    /// # });
    /// ```
    fn timeout(self, limit: Duration) -> TimeoutStream<Self> {
        TimeoutStream {
            stream: self,
            sleep: RuntimeSleep::new(limit),
            limit,
            is_over: false,
            has_ended: false,
        }
    }

    /// Yields an error at each tick of `interval` that comes while the stream pauses. Each item starts the period anew.
    ///
    /// A stream that has ended is not polled again.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::stream::StreamExt;
    /// use tickwheel_util::time;
    ///
    /// # smol::block_on(async {
    /// let items = stream::once(1).chain(stream::pending());
    /// let mut limited =
    ///     std::pin::pin!(items.timeout_repeating(time::interval(Duration::from_millis(2))));
    /// assert_eq!(limited.next().await, Some(Ok(1)));
    /// assert!(limited.next().await.unwrap().is_err());
    /// assert!(limited.next().await.unwrap().is_err(), "again, 2 ms later");
    /// # });
    /// ```
    fn timeout_repeating(self, interval: time::Interval) -> TimeoutRepeating<Self> {
        TimeoutRepeating {
            stream: self,
            interval,
            has_ended: false,
        }
    }

    /// Leaves a pause of at least `pause` between two items.
    fn throttle(self, pause: Duration) -> Throttle<Self> {
        Throttle {
            stream: self,
            sleep: RuntimeSleep::new(Duration::ZERO),
            pause,
        }
    }

    /// Yields the items in lists: when there are `most` of them, or `limit` after the first one, or at the end.
    ///
    /// A stream that never pauses is left every 64 items, so that the task yields and a list of any size comes in time.
    ///
    /// # Panics
    ///
    /// If `most` is zero.
    #[track_caller]
    fn chunks_timeout(self, most: usize, limit: Duration) -> ChunksTimeout<Self> {
        assert!(most > 0, "a chunk has room for one item at least");
        let sleep = RuntimeSleep::new(limit);
        ChunksTimeout {
            stream: self,
            items: Vec::new(),
            most,
            sleep,
            limit,
            is_over: false,
        }
    }

    /// Like [`timeout`](Self::timeout), by the timer of the thread.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel::Settings;
    /// use tickwheel_util::local::LocalSleeps;
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # smol::block_on(async {
    /// let sleeps = LocalSleeps::new(Settings::new()).unwrap();
    /// let mut limited = stream::once(1).timeout_on(&sleeps, Duration::from_secs(5));
    /// assert_eq!(limited.next().await, Some(Ok(1)));
    /// # });
    /// ```
    fn timeout_on(self, sleeps: &LocalSleeps, limit: Duration) -> TimeoutStream<Self, LocalSleep> {
        TimeoutStream {
            stream: self,
            sleep: sleeps.sleep(limit),
            limit,
            is_over: false,
            has_ended: false,
        }
    }

    /// Like [`throttle`](Self::throttle), by the timer of the thread.
    fn throttle_on(self, sleeps: &LocalSleeps, pause: Duration) -> Throttle<Self, LocalSleep> {
        Throttle {
            stream: self,
            sleep: sleeps.sleep(Duration::ZERO),
            pause,
        }
    }

    /// Like [`chunks_timeout`](Self::chunks_timeout), by the timer of the thread.
    ///
    /// # Panics
    ///
    /// If `most` is zero.
    #[track_caller]
    fn chunks_timeout_on(
        self,
        sleeps: &LocalSleeps,
        most: usize,
        limit: Duration,
    ) -> ChunksTimeout<Self, LocalSleep> {
        assert!(most > 0, "a chunk has room for one item at least");
        ChunksTimeout {
            stream: self,
            items: Vec::new(),
            most,
            sleep: sleeps.sleep(limit),
            limit,
            is_over: false,
        }
    }
}

impl<S: Stream> StreamExt for S {}

/// The answer of a stream that sleeps by `P`: its next item, or why the sleep failed.
type PollNext<T, P> = Poll<Result<Option<T>, <P as Pause>::Error>>;

pin_project! {
    /// The stream of [`StreamExt::timeout`] and [`StreamExt::timeout_on`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct TimeoutStream<S, P = RuntimeSleep> {
        #[pin]
        stream: S,
        sleep: P,
        limit: Duration,
        // This pause has been told.
        is_over: bool,
        has_ended: bool,
    }
}

impl<S: Stream, P: Pause> TimeoutStream<S, P> {
    fn poll_limited(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> PollNext<Result<S::Item, Elapsed>, P> {
        let this = self.project();
        if *this.has_ended {
            return Poll::Ready(Ok(None));
        }
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.sleep.reset(*this.limit);
                *this.is_over = false;
            } else {
                *this.has_ended = true;
            }
            return Poll::Ready(Ok(item.map(Ok)));
        }
        if *this.is_over {
            return Poll::Pending;
        }
        ready!(this.sleep.poll_over(cx))?;
        *this.is_over = true;
        Poll::Ready(Ok(Some(Err(Elapsed))))
    }
}

impl<S: Stream> Stream for TimeoutStream<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Ok(item) = ready!(self.poll_limited(cx));
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.has_ended {
            return (0, Some(0));
        }
        // An error may come between any two items.
        let (least, most) = self.stream.size_hint();
        (
            least,
            most.and_then(|most| most.checked_mul(2)?.checked_add(1)),
        )
    }
}

impl<S: Stream> Stream for TimeoutStream<S, LocalSleep> {
    type Item = Result<S::Item, TimeoutError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let limited = ready!(self.poll_limited(cx));
        Poll::Ready(match limited {
            Ok(item) => item.map(|item| item.map_err(|Elapsed| TimeoutError::Elapsed)),
            Err(error) => Some(Err(error.into())),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.has_ended {
            return (0, Some(0));
        }
        // Errors come besides.
        (self.stream.size_hint().0, None)
    }
}

pin_project! {
    /// The stream of [`StreamExt::timeout_repeating`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct TimeoutRepeating<S> {
        #[pin]
        stream: S,
        interval: time::Interval,
        has_ended: bool,
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            } else {
                *this.has_ended = true;
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_tick(cx));
        Poll::Ready(Some(Err(Elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.has_ended {
            return (0, Some(0));
        }
        // Errors come between any two items, without a limit.
        (self.stream.size_hint().0, None)
    }
}

pin_project! {
    /// The stream of [`StreamExt::throttle`] and [`StreamExt::throttle_on`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Throttle<S, P = RuntimeSleep> {
        #[pin]
        stream: S,
        sleep: P,
        pause: Duration,
    }
}

impl<S: Stream, P: Pause> Throttle<S, P> {
    fn poll_throttled(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<S::Item>, P::Error>> {
        let this = self.project();
        ready!(this.sleep.poll_over(cx))?;
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() {
            this.sleep.reset(*this.pause);
        }
        Poll::Ready(Ok(item))
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let Ok(item) = ready!(self.poll_throttled(cx));
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: Stream> Stream for Throttle<S, LocalSleep> {
    type Item = Result<S::Item, SleepError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_throttled(cx).map(Result::transpose)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Errors come besides.
        (self.stream.size_hint().0, None)
    }
}

pin_project! {
    /// The stream of [`StreamExt::chunks_timeout`] and [`StreamExt::chunks_timeout_on`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct ChunksTimeout<S: Stream, P = RuntimeSleep> {
        #[pin]
        stream: S,
        items: Vec<S::Item>,
        most: usize,
        sleep: P,
        limit: Duration,
        // The stream has ended.
        is_over: bool,
    }
}

impl<S: Stream, P> ChunksTimeout<S, P> {
    /// Takes the items that have not been yielded, before a stream is dropped half-way.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::stream::StreamExt;
    ///
    /// # smol::block_on(async {
    /// let items = stream::iter([1, 2, 3]).chain(stream::pending());
    /// let mut lists = std::pin::pin!(items.chunks_timeout(2, Duration::from_secs(60)));
    /// assert_eq!(lists.next().await, Some(vec![1, 2]));
    /// assert!(futures_lite::future::poll_once(lists.next()).await.is_none());
    /// assert_eq!(lists.into_remainder(), [3]);
    /// # });
    /// ```
    #[allow(
        clippy::wrong_self_convention,
        reason = "the name that tokio-stream has"
    )]
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        std::mem::take(self.project().items)
    }
}

impl<S: Stream, P: Pause> ChunksTimeout<S, P> {
    fn poll_list(self: Pin<&mut Self>, cx: &mut Context<'_>) -> PollNext<Vec<S::Item>, P> {
        // How many items a poll takes before the task yields.
        const MOST_PER_POLL: usize = 64;
        let mut this = self.project();
        let mut taken = 0;
        while !*this.is_over {
            if taken == MOST_PER_POLL {
                cx.waker().wake_by_ref();
                ready!(this.sleep.poll_over(cx))?;
                return Poll::Ready(Ok(Some(std::mem::take(this.items))));
            }
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.items.is_empty() {
                        this.sleep.reset(*this.limit);
                    }
                    this.items.push(item);
                    taken += 1;
                    if this.items.len() == *this.most {
                        return Poll::Ready(Ok(Some(std::mem::take(this.items))));
                    }
                }
                Poll::Ready(None) => *this.is_over = true,
                Poll::Pending => {
                    if this.items.is_empty() {
                        return Poll::Pending;
                    }
                    ready!(this.sleep.poll_over(cx))?;
                    return Poll::Ready(Ok(Some(std::mem::take(this.items))));
                }
            }
        }
        let rest = std::mem::take(this.items);
        Poll::Ready(Ok(Some(rest).filter(|rest| !rest.is_empty())))
    }

    /// How many lists there will be.
    fn lists(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        let waiting = self.items.len();
        let lists = least.saturating_add(waiting).div_ceil(self.most);
        (lists, most.and_then(|most| most.checked_add(waiting)))
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Ok(list) = ready!(self.poll_list(cx));
        Poll::Ready(list)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.lists()
    }
}

impl<S: Stream> Stream for ChunksTimeout<S, LocalSleep> {
    type Item = Result<Vec<S::Item>, SleepError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_list(cx).map(Result::transpose)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Errors come besides.
        (self.lists().0, None)
    }
}

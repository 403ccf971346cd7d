//! `Stream` for what gives one thing after the other, and limits of time for streams.

use crate::DelayQueue;
use crate::engine::RuntimeSleep;
use crate::time;
use futures_core::Stream;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{Elapsed, Expired, Interval, SleepError, Time};

/// Turns an interval into a `Stream`: one tick after the other, without an end.
///
/// For [`time::Interval`], whose items are the instants at which its ticks were due, and for tickwheel's [`Interval`],
/// whose items are times on its engine's clock.
///
/// ```
/// use futures_lite::StreamExt as _;
/// use std::time::Duration;
/// use tickwheel_util::{IntervalStream, time};
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

/// Like [`poll_expired`](DelayQueue::poll_expired): `None` while the queue is empty, which need not be the end.
impl<T> Stream for DelayQueue<T> {
    type Item = Result<Expired<T>, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_expired(cx)
    }
}

/// Adds limits of time to every stream.
pub trait StreamExt: Stream + Sized {
    /// Yields an error when the stream has paused for `limit`, once per pause.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::StreamExt;
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
        }
    }

    /// Yields an error at each tick of `interval` that comes while the stream pauses. Each item starts the period anew.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::{StreamExt, time};
    ///
    /// # smol::block_on(async {
    /// let items = stream::once(1).chain(stream::pending());
    /// let mut limited = std::pin::pin!(items.timeout_repeating(time::interval(Duration::from_millis(2))));
    /// assert_eq!(limited.next().await, Some(Ok(1)));
    /// assert!(limited.next().await.unwrap().is_err());
    /// assert!(limited.next().await.unwrap().is_err(), "again, 2 ms later");
    /// # });
    /// ```
    fn timeout_repeating(self, interval: time::Interval) -> TimeoutRepeating<Self> {
        TimeoutRepeating {
            stream: self,
            interval,
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
}

impl<S: Stream> StreamExt for S {}

pin_project! {
    /// The stream of [`StreamExt::timeout`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct TimeoutStream<S> {
        #[pin]
        stream: S,
        sleep: RuntimeSleep,
        limit: Duration,
        // This pause has been told.
        is_over: bool,
    }
}

impl<S: Stream> Stream for TimeoutStream<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.sleep.reset(*this.limit);
                *this.is_over = false;
            }
            return Poll::Ready(item.map(Ok));
        }
        if *this.is_over {
            return Poll::Pending;
        }
        ready!(this.sleep.poll(cx));
        *this.is_over = true;
        Poll::Ready(Some(Err(Elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error may come between any two items.
        let (least, most) = self.stream.size_hint();
        (
            least,
            most.and_then(|most| most.checked_mul(2)?.checked_add(1)),
        )
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
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_tick(cx));
        Poll::Ready(Some(Err(Elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Errors come between any two items, without a limit.
        (self.stream.size_hint().0, None)
    }
}

pin_project! {
    /// The stream of [`StreamExt::throttle`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        sleep: RuntimeSleep,
        pause: Duration,
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        ready!(this.sleep.poll(cx));
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() {
            this.sleep.reset(*this.pause);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

pin_project! {
    /// The stream of [`StreamExt::chunks_timeout`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct ChunksTimeout<S: Stream> {
        #[pin]
        stream: S,
        items: Vec<S::Item>,
        most: usize,
        sleep: RuntimeSleep,
        limit: Duration,
        // The stream has ended.
        is_over: bool,
    }
}

impl<S: Stream> ChunksTimeout<S> {
    /// Takes the items that have not been yielded, before a stream is dropped half-way.
    ///
    /// ```
    /// use futures_lite::{StreamExt as _, stream};
    /// use std::time::Duration;
    /// use tickwheel_util::StreamExt;
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

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // How many items a poll takes before the task yields.
        const MOST_PER_POLL: usize = 64;
        let mut this = self.project();
        let mut taken = 0;
        while !*this.is_over {
            if taken == MOST_PER_POLL {
                cx.waker().wake_by_ref();
                ready!(this.sleep.poll(cx));
                return Poll::Ready(Some(std::mem::take(this.items)));
            }
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.items.is_empty() {
                        this.sleep.reset(*this.limit);
                    }
                    this.items.push(item);
                    taken += 1;
                    if this.items.len() == *this.most {
                        return Poll::Ready(Some(std::mem::take(this.items)));
                    }
                }
                Poll::Ready(None) => *this.is_over = true,
                Poll::Pending => {
                    if this.items.is_empty() {
                        return Poll::Pending;
                    }
                    ready!(this.sleep.poll(cx));
                    return Poll::Ready(Some(std::mem::take(this.items)));
                }
            }
        }
        let rest = std::mem::take(this.items);
        Poll::Ready(Some(rest).filter(|rest| !rest.is_empty()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (least, most) = self.stream.size_hint();
        let waiting = self.items.len();
        let lists = least.saturating_add(waiting).div_ceil(self.most);
        (lists, most.and_then(|most| most.checked_add(waiting)))
    }
}

//! `Stream` for what gives one thing after the other, and limits of time for streams.

use crate::DelayQueue;
use futures_core::Stream;
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tickwheel::{Elapsed, Expired, Interval, Sleep, SleepError, Time};

/// Turns an [`Interval`] into a `Stream`: one [`tick`](Interval::tick) after the other, without an end.
#[derive(Debug)]
pub struct IntervalStream<E = Infallible>(pub Interval<E>);

impl Stream for IntervalStream {
    type Item = Time;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Time>> {
        pin!(self.0.tick()).poll(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl Stream for IntervalStream<SleepError> {
    type Item = Result<Time, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_tick(cx).map(Some)
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
            sleep: tickwheel::sleep(limit),
            limit,
            is_over: false,
        }
    }

    /// Leaves a pause of at least `pause` between two items.
    fn throttle(self, pause: Duration) -> Throttle<Self> {
        Throttle {
            stream: self,
            sleep: tickwheel::sleep(Duration::ZERO),
            pause,
        }
    }

    /// Yields the items in lists: when there are `most` of them, or `limit` after the first one, or at the end.
    ///
    /// # Panics
    ///
    /// If `most` is zero.
    #[track_caller]
    fn chunks_timeout(self, most: usize, limit: Duration) -> ChunksTimeout<Self> {
        assert!(most > 0, "a chunk has room for one item at least");
        let sleep = tickwheel::sleep(limit);
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
        sleep: Sleep,
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
        ready!(Pin::new(this.sleep).poll(cx));
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
    /// The stream of [`StreamExt::throttle`].
    #[derive(Debug)]
    #[must_use = "streams do nothing unless they are polled"]
    pub struct Throttle<S> {
        #[pin]
        stream: S,
        sleep: Sleep,
        pause: Duration,
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        ready!(Pin::new(&mut *this.sleep).poll(cx));
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
        sleep: Sleep,
        limit: Duration,
        // The stream has ended.
        is_over: bool,
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        while !*this.is_over {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.items.is_empty() {
                        this.sleep.reset(*this.limit);
                    }
                    this.items.push(item);
                    if this.items.len() == *this.most {
                        return Poll::Ready(Some(std::mem::take(this.items)));
                    }
                }
                Poll::Ready(None) => *this.is_over = true,
                Poll::Pending => {
                    if this.items.is_empty() {
                        return Poll::Pending;
                    }
                    ready!(Pin::new(&mut *this.sleep).poll(cx));
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

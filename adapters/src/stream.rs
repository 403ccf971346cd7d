//! `Stream` for what gives one thing after the other.

use crate::DelayQueue;
use futures_core::Stream;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tickwheel::{Expired, Interval, SleepError, Time};

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

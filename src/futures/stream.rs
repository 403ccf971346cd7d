//! `Stream` for what gives one thing after the other.

use super::delay_queue::DelayQueue;
use super::error::SleepError;
use super::interval::Interval;
use crate::time::Time;
use crate::types::Expired;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// One [`tick`](Interval::tick) after the other, without an end.
impl Stream for Interval {
    type Item = Result<Time, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

/// As [`poll_expired`](DelayQueue::poll_expired): `None` while the queue is empty, which need not be the end.
impl<T> Stream for DelayQueue<T> {
    type Item = Result<Expired<T>, SleepError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_expired(cx)
    }
}

//! A connection that must not be idle for too long: what is read or written pushes its end out.

use super::timers::Timers;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub(super) struct Idle<T: Timers, S> {
    stream: S,
    limit: Duration,
    sleep: Option<Pin<Box<T::Sleep>>>,
}

impl<T: Timers, S> Idle<T, S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, sleep: T::sleep(limit).map(Box::pin) }
    }

    /// What came of a read or a write: progress, or one more moment of waiting.
    fn watched<R>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<Result<R, Error>>,
    ) -> Poll<Result<R, Error>> {
        let Some(sleep) = &mut self.sleep else { return done };
        match done {
            Poll::Ready(Ok(_)) => T::reset(sleep.as_mut(), self.limit),
            Poll::Pending if sleep.as_mut().poll(cx).is_ready() => {
                return Poll::Ready(Err(ErrorKind::TimedOut.into()));
            }
            _ => {}
        }
        done
    }
}

impl<T: Timers, S: Read + Unpin> Read for Idle<T, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<(), Error>> {
        let done = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watched(cx, done)
    }
}

impl<T: Timers, S: Write + Unpin> Write for Idle<T, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<Result<usize, Error>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, buffer);
        self.watched(cx, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize, Error>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.watched(cx, done)
    }
}

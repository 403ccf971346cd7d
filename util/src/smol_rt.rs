//! Timers that fire cost a thread switch less where tasks of smol turn the engine's shards.
//!
//! ```
//! # smol::block_on(async {
//! for task in tickwheel_util::smol_rt::drive_shared()? {
//!     smol::spawn(task).detach();
//! }
//! tickwheel::sleep(std::time::Duration::from_millis(5)).await;
//! # std::io::Result::Ok(()) }).unwrap();
//! ```
//!
//! For any executor whose threads run the reactor of `async-io`. What the module [`tokio_rt`](crate::tokio_rt) says of
//! tasks that are busy, aborted or dropped holds here, too.

use crate::driving::{Alarm, Driving, shared};
use async_io::Timer as Reactor;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tickwheel::{Timer, TimerTask, TurnError};

/// Returns a task for each shard of an engine, which turns it in place of its worker, to be spawned at once.
///
/// A task ends when the engine is stopped; dropping it gives the shard back to a worker. The call waits for the handler
/// that a worker runs, so that handler must not wait for the calling task.
///
/// # Errors
///
/// If another task drives a shard, if the engine is stopped, or if the call comes from one of its handlers. Then no shard
/// is driven.
pub fn drive<T: Send + 'static>(
    timer: &Timer<T>,
) -> io::Result<Vec<impl Future<Output = TurnError> + Send + use<T>>> {
    Driving::<T, SmolAlarm>::all(timer)
}

/// Returns tasks that drive the process's shared engine; see [`drive`].
///
/// If no library has asked for the engine yet it gets one shard; see
/// [`build_global`](tickwheel::Builder) for more.
///
/// # Errors
///
/// Like [`drive`].
pub fn drive_shared() -> io::Result<Vec<impl Future<Output = TurnError> + Send + use<>>> {
    drive::<TimerTask>(shared()?)
}

struct SmolAlarm(Reactor);

impl Alarm for SmolAlarm {
    fn new() -> Self {
        Self(Reactor::never())
    }

    fn set(&mut self, pause: Duration) {
        self.0.set_after(pause);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

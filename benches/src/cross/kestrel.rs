//! kestrel-timer: a wheel of two rings behind one lock, turned by a task of tokio.

use super::{CrossPeer, Setup};
use crate::book::Book;
use kestrel_timer::config::{BatchConfig, WheelConfig};
use kestrel_timer::timer::handle::TimerHandleWithCompletion;
use kestrel_timer::{CallbackWrapper, TimerTask, TimerWheel};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// See the module.
#[derive(Clone)]
pub(super) struct KestrelPeer {
    wheel: Arc<TimerWheel>,
    runtime: &'static Runtime,
    book: &'static Book,
}

impl CrossPeer for KestrelPeer {
    type Handle = TimerHandleWithCompletion;

    fn start(setup: Setup) -> Self {
        let runtime = Builder::new_multi_thread().enable_time().build();
        // Lives as long as the process.
        let runtime: &Runtime = Box::leak(Box::new(runtime.expect("a runtime")));
        let _inside = runtime.enter();
        let config = WheelConfig::builder().l0_tick_duration(setup.tick).build();
        let config = config.expect("a tick that divides a second");
        let wheel = TimerWheel::new(config, BatchConfig::default());
        Self {
            wheel: Arc::new(wheel.expect("the settings are in range")),
            runtime,
            book: setup.book,
        }
    }

    #[inline]
    fn schedule(&self, delay: Duration, payload: u64) -> Self::Handle {
        let book = self.book;
        let callback = CallbackWrapper::new(move || async move { book.fired(payload) });
        let task = TimerTask::new_oneshot(delay, Some(callback));
        let handle = self.wheel.allocate_handle();
        let registered = self.wheel.register(handle, task);
        registered.expect("the wheel is not shut down")
    }

    #[inline]
    fn cancel(&self, handle: Self::Handle) {
        // One that has fired has no timer any more.
        _ = handle.cancel();
    }

    fn runtime(&self) -> Option<&'static Runtime> {
        Some(self.runtime)
    }
}

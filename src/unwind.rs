//! Declares the types that survive a panic of their user.
//!
//! A panic in a handler, in a payload's destructor or beside a call leaves every timer as it should be: the tests
//! panic in all of these places and go on. So code that catches a panic may go on using its timer.

#[cfg(feature = "threads")]
use crate::engine::{Submitter, Timer, TimerHandle, WeakTimer};
#[cfg(feature = "threads")]
use crate::event_loop::{EventLoopTimer, Remote};
#[cfg(feature = "futures")]
use crate::futures::{Interval, Sleep};
use crate::local::LocalTimer;
use core::panic::{RefUnwindSafe, UnwindSafe};

impl<T: UnwindSafe, W> UnwindSafe for LocalTimer<T, W> {}
impl<T: RefUnwindSafe, W> RefUnwindSafe for LocalTimer<T, W> {}

#[cfg(feature = "threads")]
macro_rules! survives {
    ($($timer:ty),+) => {$(
        impl<T> UnwindSafe for $timer {}
        impl<T> RefUnwindSafe for $timer {}
    )+};
}
#[cfg(feature = "threads")]
survives!(
    Timer<T>,
    WeakTimer<T>,
    TimerHandle<T>,
    Submitter<'_, T>,
    Remote<T>
);

#[cfg(feature = "threads")]
impl<T: UnwindSafe> UnwindSafe for EventLoopTimer<T> {}
#[cfg(feature = "threads")]
impl<T: RefUnwindSafe> RefUnwindSafe for EventLoopTimer<T> {}

#[cfg(feature = "futures")]
survives!(Sleep<T>, Interval<T>);

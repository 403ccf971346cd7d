//! What survives a panic of its user.
//!
//! A panic in a handler, in a payload's destructor or beside a call leaves every timer as it should be: the tests
//! panic in all of these places and go on. So whoever catches a panic may use the timer that he holds.

use crate::engine::{Timeout, Timer, WeakTimer};
use crate::event_loop::{EventLoopTimer, Remote};
use crate::local::{FixedTimer, LocalTimer};
use std::panic::{RefUnwindSafe, UnwindSafe};

impl<T> UnwindSafe for Timer<T> {}
impl<T> RefUnwindSafe for Timer<T> {}
impl<T> UnwindSafe for WeakTimer<T> {}
impl<T> RefUnwindSafe for WeakTimer<T> {}
impl<T> UnwindSafe for Timeout<T> {}
impl<T> RefUnwindSafe for Timeout<T> {}
impl<T> UnwindSafe for Remote<T> {}
impl<T> RefUnwindSafe for Remote<T> {}
impl<T: UnwindSafe> UnwindSafe for EventLoopTimer<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for EventLoopTimer<T> {}
impl<T: UnwindSafe> UnwindSafe for LocalTimer<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for LocalTimer<T> {}
impl<T: UnwindSafe> UnwindSafe for FixedTimer<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for FixedTimer<T> {}

//! Code of the user's that panics, blocks or calls back, and surroundings that change under the engine: nothing of it
//! ends a worker, loses a timer or hangs a call.
//!
//! The logger of this program keeps every record and then panics, in all tests.
//!
//! | room | what is inside |
//! |---|---|
//! | `panics` | destructors, clones, handlers, executors, hooks, wakers that panic |
//! | `clocks` | clocks that panic |
//! | `endings` | shutdown and its modes; drops that must not wait |
//! | `reentrant` | calls out of a closure that runs already, and out of the end of a thread |
//! | `prepared` | user code in the middle of a call that schedules timers itself |
//! | `children` | processes of a test's own |
//! | `processes` | what needs one: a slewed clock, descriptors |
//! | `forks` | a fork, which does too |
//! | `starters` | what a thread of the library must not inherit of the one that starts it |
//! | `stopped` | a thread that stops at any instruction |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod breakable;
    pub(crate) mod setup;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
}

#[cfg(target_os = "linux")]
mod children;
mod clocks;
mod endings;
#[cfg(target_os = "linux")]
mod forks;
mod panics;
mod prepared;
#[cfg(target_os = "linux")]
mod processes;
mod reentrant;
#[cfg(target_os = "linux")]
mod starters;
#[cfg(target_os = "linux")]
mod stopped;

use std::cell::Cell;
use std::sync::{Mutex, Once};
use std::time::Duration;
use tickwheel::{Builder, Drive, Timer};

thread_local! {
    /// The errors that this thread was to log.
    static ERRORS: Cell<u32> = const { Cell::new(0) };
}

struct PanickingLogger;

/// The text of each record.
static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether there is such a record. With the feature `tracing` there are none, and this says yes.
fn is_logged(text: &str) -> bool {
    cfg!(feature = "tracing") || LOGGED.lock().unwrap().iter().any(|it| it == text)
}

impl log::Log for PanickingLogger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        ERRORS.set(ERRORS.get() + u32::from(record.level() == log::Level::Error));
        LOGGED.lock().unwrap().push(record.args().to_string());
        panic!("the logger, asked to say: {}", record.args());
    }

    fn flush(&self) {}
}

/// To be called first in each test that uses no [`one_shard`].
fn install_logger() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        log::set_logger(&PanickingLogger).expect("this program has one logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// With the logger that panics: one unpinned shard.
fn one_shard() -> Builder {
    install_logger();
    support::setup::one_shard()
}

const DRIVES: [Drive; 2] = [Drive::Workers, Drive::Manual];

/// Schedules a timer whose name does not matter.
#[track_caller]
fn arm<T: Send + 'static>(timer: &Timer<T>, delay: Duration, payload: T) {
    timer.schedule(delay, payload).expect("the engine takes it");
}

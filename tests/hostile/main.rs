//! Code of the user's that panics, blocks or calls back, and surroundings that change under the engine: nothing of it
//! ends a worker, loses a timer or hangs a call.
//!
//! The logger of this program panics on every record, in all tests.
//!
//! | room | what is inside |
//! |---|---|
//! | `panics` | destructors, clones, handlers, executors, hooks, wakers that panic |
//! | `clocks` | clocks that panic |
//! | `endings` | shutdown and its modes; drops that must not wait |
//! | `reentrant` | calls out of a closure that runs already, and out of the end of a thread |
//! | `processes` | what needs a process of its own: a slewed clock, descriptors |
//! | `forks` | a fork, which does too |

#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../support"]
mod support {
    pub(crate) mod setup;
}

mod clocks;
mod endings;
#[cfg(target_os = "linux")]
mod forks;
mod panics;
mod processes;
mod reentrant;

use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tickwheel::Timer;

struct PanickingLogger;

impl log::Log for PanickingLogger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        panic!("the logger, asked to say: {}", record.args());
    }

    fn flush(&self) {}
}

/// To be called first in each test.
fn install_logger() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        log::set_logger(&PanickingLogger).expect("this program has one logger");
        log::set_max_level(log::LevelFilter::Trace);
    });
}

/// Schedules a timer whose name does not matter.
#[track_caller]
fn arm<T: Send + 'static>(timer: &Timer<T>, delay: Duration, payload: T) {
    timer.schedule_key(delay, payload).expect("the engine takes it");
}

/// A value whose destructor panics once it is armed, and whose clones are counted.
struct Bomb {
    armed: Arc<AtomicBool>,
    drops: Arc<AtomicU32>,
}

impl Bomb {
    fn new(armed: &Arc<AtomicBool>, drops: &Arc<AtomicU32>) -> Self {
        Self { armed: Arc::clone(armed), drops: Arc::clone(drops) }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        // A panic on top of a panic ends the process by the language's own rule.
        if self.armed.load(Ordering::SeqCst) && !std::thread::panicking() {
            panic!("a bomb");
        }
    }
}

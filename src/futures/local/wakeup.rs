//! What a timer of a thread's sleeps carries.

use std::task::Waker;

/// The payload of a timer that [`LocalSleeps`](crate::LocalSleeps) fires: the waker of a task.
///
/// It goes to a [`Remote`](crate::Remote), and comes back from its `cancel`.
///
/// ```
/// use std::task::Waker;
/// use std::time::Duration;
/// use tickwheel::{Settings, LocalSleeps};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let remote = sleeps.remote();
/// let key = remote.schedule(Duration::from_secs(1), Waker::noop().clone().into())?;
/// let waker: Waker = remote.cancel(key).payload().expect("it is pending").into();
/// waker.wake();
/// # Ok(()) }
/// ```
///
/// It is not [`Clone`], so none of these timers is periodic: a turn would copy the waker, which is a call into the
/// task's runtime, while it has the thread's timer. A task that is to be woken again schedules anew.
///
/// ```compile_fail,E0277
/// use std::task::Waker;
/// use std::time::Duration;
/// use tickwheel::{Settings, LocalSleeps, Period};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sleeps = LocalSleeps::new(Settings::new())?;
/// let second = Duration::from_secs(1);
/// sleeps.remote().schedule_periodic(second, Period::fixed_delay(second)?, Waker::noop().clone().into())?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Wakeup(Waker);

impl From<Waker> for Wakeup {
    fn from(waker: Waker) -> Self {
        Self(waker)
    }
}

impl From<Wakeup> for Waker {
    fn from(wakeup: Wakeup) -> Self {
        wakeup.0
    }
}

//! The payloads of periodic timers.

/// A payload that a periodic timer can hand out once per period: anything that is [`Clone`]. There is nothing to
/// implement.
///
/// ```
/// use std::time::Duration;
/// use tickwheel::{LocalTimer, MissedTicks, Period, Recurring, Time};
///
/// fn every_second<T: Recurring>(
///     timer: &mut LocalTimer<T>,
///     payload: T,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let second = Duration::from_secs(1);
///     let period = Period::fixed_rate(second, MissedTicks::Skip);
///     timer
///         .schedule_periodic(Time::ZERO, second, period, payload)
///         .map_err(|error| error.into_kind())?;
///     Ok(())
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut timer = LocalTimer::new(Duration::from_millis(1))?;
/// every_second(&mut timer, "heartbeat")?;
/// assert_eq!(timer.pending(), 1);
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "a periodic timer hands out a clone of its payload per period, and `{Self}` is not `Clone`",
    label = "takes a payload that is `Clone`",
    note = "closures: `repeat` takes one that can be called again and again (`FnMut`) and need not be `Clone`",
    note = "other payloads: derive `Clone`, or put what cannot be cloned into an `Arc`"
)]
pub trait Recurring: Clone {}

#[diagnostic::do_not_recommend]
impl<T: Clone> Recurring for T {}

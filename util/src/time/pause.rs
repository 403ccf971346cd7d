//! Time that a test holds still and moves.

use super::Duration;
use std::future::poll_fn;

/// Holds the time of a runtime still, like `tokio::time::pause`: for tests in a current-thread runtime of tokio.
///
/// [`Instant::now`](super::Instant::now) stands, and tokio's clock with it. When no task is ready, time jumps to the
/// next deadline, of this crate or of tokio. `#[tokio::test(start_paused = true)]` does the same from the start. From the
/// pause on each run of a test sees the same times, to the nanosecond. A jump is a whole number of milliseconds.
///
/// ```
/// use tickwheel_util::time::{self, Duration, Instant};
///
/// # // The attribute's function runs only in tests.
/// # fn main() { tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(an_hour()) }
/// # /*
/// #[tokio::test]
/// # */
/// async fn an_hour() {
///     time::pause();
///     let start = Instant::now();
///     time::sleep(Duration::from_secs(3600)).await; // takes no time
///     assert_eq!(start.elapsed(), Duration::from_secs(3600));
/// }
/// ```
///
/// # Panics
///
/// If time stands already, or outside of a current-thread runtime of tokio with `enable_time`. On other executors the
/// module [`test`](crate::test) has virtual time.
#[cfg(feature = "tokio")]
#[track_caller]
pub fn pause() {
    assert!(
        crate::test::scale().is_none(),
        "time stands already: this thread has a test clock"
    );
    tokio::time::pause();
    assert!(
        crate::tokio_rt::pausable::align(),
        "time stands only in a current-thread runtime with `enable_time`"
    );
}

/// Lets the time of a runtime go on after [`pause`], like `tokio::time::resume`.
///
/// # Panics
///
/// If time does not stand by [`pause`] or `start_paused`, or outside of a runtime of tokio.
#[cfg(feature = "tokio")]
#[track_caller]
pub fn resume() {
    assert!(
        crate::test::scale().is_none(),
        "the time of a test clock stands until its test ends"
    );
    tokio::time::resume();
}

/// Moves time that stands, fires what is due then, and yields once, like `tokio::time::advance`.
///
/// For time that stands by [`pause`] or `start_paused`, and in [`test::run`](crate::test::run) and
/// [`test::paused`](crate::test::paused). Tasks that are woken may not have run when it returns. To let everything until
/// then happen in order, sleep instead.
///
/// ```
/// use tickwheel_util::test;
/// use tickwheel_util::time::{self, Duration, Instant};
///
/// test::run(async {
///     let start = Instant::now();
///     time::advance(Duration::from_micros(1500)).await;
///     assert_eq!(start.elapsed(), Duration::from_micros(1500));
/// });
/// ```
///
/// # Panics
///
/// If time does not stand, or if the sum is out of the range of an `Instant`.
pub async fn advance(duration: Duration) {
    if crate::test::advance(duration) {
        let mut yielded = false;
        return poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }
    #[cfg(feature = "tokio")]
    {
        // Its first poll moves the clock, its second one is ready.
        let mut moved = std::pin::pin!(tokio::time::advance(duration));
        poll_fn(|cx| {
            let polled = moved.as_mut().poll(cx);
            if polled.is_pending() {
                crate::tokio_rt::pausable::turn();
            }
            polled
        })
        .await;
    }
    #[cfg(not(feature = "tokio"))]
    panic!("time does not stand: this thread has no test clock");
}

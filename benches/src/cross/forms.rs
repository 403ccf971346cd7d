//! forms: what a schedule costs by the form in which its deadline is given.

use crate::figure::Scale;
use crate::measure::{Metrics, per};
use crate::stream::Stream;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Drive, Expired, Key, Time, Timer, When};

/// Schedules of one form between two looks at the clock.
const PIECE: usize = 1024;

/// A tolerance.
const SLACK: Duration = Duration::from_millis(100);

/// The time of a piece of schedules; the cancels that follow are not in it.
fn timed<W: Into<When>>(
    timer: &Timer<u64>,
    delays: &[Duration],
    keys: &mut Vec<Key<u64>>,
    when: impl Fn(Duration) -> W,
) -> Duration {
    let start = Instant::now();
    for delay in delays {
        keys.push(timer.schedule_key(when(*delay), 17).expect("there is no limit"));
    }
    let taken = start.elapsed();
    for key in keys.drain(..) {
        assert!(timer.cancel(key).won(), "nobody turns meanwhile");
    }
    timer.turn().expect("it is turned by hand");
    taken
}

/// All forms in turn, piece by piece: whatever else the machine does hits all of them.
pub(super) fn forms(scale: Scale) -> Metrics {
    let builder = Builder::new().shards(1).drive(Drive::Manual);
    let timer = builder.build_with(|_: Expired<u64>| ()).expect("the settings are in range");
    let mut stream = Stream::new(PIECE, super::throughput::DELAYS);
    let (mut delays, mut keys) = (Vec::new(), Vec::with_capacity(PIECE));
    let mut taken = [Duration::ZERO; 6];
    let pieces = scale.steps(2_000_000) / PIECE + 2;
    for piece in 0..pieces {
        delays.clear();
        delays.extend((0..PIECE).map(|_| stream.delay()));
        // Read once per piece, as a server does once per round.
        let (now, instant): (Time, Instant) = (timer.now(), Instant::now());
        let this = [
            timed(&timer, &delays, &mut keys, |delay| delay),
            timed(&timer, &delays, &mut keys, |delay| now + delay),
            timed(&timer, &delays, &mut keys, |delay| instant + delay),
            timed(&timer, &delays, &mut keys, |delay| When::from(delay).with_slack(SLACK)),
            timed(&timer, &delays, &mut keys, |_| Duration::ZERO),
            timed(&timer, &delays, &mut keys, |_| now),
        ];
        // The first one makes the nodes.
        if piece > 0 {
            taken.iter_mut().zip(this).for_each(|(sum, this)| *sum += this);
        }
    }
    let schedules = (pieces - 1) * PIECE;
    let [delay, time, instant, slack, zero, overdue] = taken.map(|taken| per(taken, schedules));
    vec![
        ("delay ns", delay),
        ("Time ns", time),
        ("Instant ns", instant),
        ("delay with slack ns", slack),
        ("zero delay ns", zero),
        ("overdue Time ns", overdue),
    ]
}

//! What the futures of a server do: deadlines that move both ways, storms of connections, heartbeats, a task per timer.
//!
//! All but `quic` with `LocalTimer` run on a runtime of tokio. The processor time is that of the whole process.

use crate::figure::{Scale, Work};
use crate::local::{LocalPeer, LocalTimerPeer};
use crate::measure::{Metrics, Sorted, Usage, peak_bytes, per, resident_bytes};
use crate::peer::Peer;
use crate::random::Random;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{coop::unconstrained, yield_now};

/// To which delays a connection of QUIC resets its timer in turn: an acknowledgement, a loss probe, the idle timeout.
const RESETS: [Duration; 3] = [
    Duration::from_millis(25),
    Duration::from_millis(300),
    Duration::from_secs(30),
];
/// Connections of [`quic`].
const CONNECTIONS: usize = 10_000;
/// Calls between two looks of the runtime at its timers.
const YIELD: usize = 1_000;
/// What a connection arms in a [`storm`]: the first is cancelled.
const HANDSHAKE: Duration = Duration::from_secs(5);
const KEPT: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(30)];
/// Timers per second of [`beats`] and [`spawned`], and the shortest and longest of their sleeps.
const PER_SECOND: u64 = 100_000;
const SLEEP_US: std::ops::Range<u64> = 2_000..20_001;
/// Of so many latenesses, or connections' calls, one is written down.
const SAMPLED: u64 = 16;

/// Whose sleeps are measured.
trait Sleeps: 'static {
    type Sleep: Future<Output = ()> + Send + 'static;

    fn sleep(delay: Duration) -> Self::Sleep;

    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration);
}

/// tokio's own.
struct OfTokio;

impl Sleeps for OfTokio {
    type Sleep = tokio::time::Sleep;

    #[inline]
    fn sleep(delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }

    #[inline]
    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.reset(tokio::time::Instant::now() + delay);
    }
}

/// Those of `tickwheel_util::time`.
struct OfTime;

impl Sleeps for OfTime {
    type Sleep = tickwheel_util::time::Sleep;

    #[inline]
    fn sleep(delay: Duration) -> Self::Sleep {
        tickwheel_util::time::sleep(delay)
    }

    #[inline]
    fn reset(sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.reset(tickwheel_util::time::Instant::now() + delay);
    }
}

/// Runs a figure of servers.
pub fn measure(work: Work, peer: Peer, scale: Scale) -> Metrics {
    match peer {
        Peer::LocalTimer => quic_local(scale),
        Peer::Tokio => measure_peer::<OfTokio>(work, scale),
        Peer::Time => measure_peer::<OfTime>(work, scale),
        other => unreachable!("{other:?} takes no part in figures of servers"),
    }
}

fn measure_peer<S: Sleeps>(work: Work, scale: Scale) -> Metrics {
    let threads = if work == Work::Quic { 1 } else { 2 };
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).enable_time().build();
    let runtime = runtime.expect("a runtime");
    let watch = scale.watch(Duration::from_secs(3));
    let work = async move {
        match work {
            Work::Quic => quic::<S>(scale).await,
            Work::Reconnect => storm::<S>(scale.timers(100_000)).await,
            Work::Beats => beats::<S>(watch).await,
            Work::Spawned => spawned::<S>(watch).await,
            other => unreachable!("{other:?} is not a figure of servers"),
        }
    };
    let done = runtime.block_on(async { tokio::spawn(work).await });
    done.expect("a measurement does not panic")
}

/// Polls once; whether it is over.
#[inline]
async fn poll<F: Future<Output = ()>>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

/// Sleeps that are reset to 25 ms, 300 ms and 30 s by turns, and polled after each reset.
async fn quic<S: Sleeps>(scale: Scale) -> Metrics {
    let resets = scale.steps(4_000_000);
    let mut sleeps: Vec<Pin<Box<S::Sleep>>> = Vec::with_capacity(CONNECTIONS);
    // The first one makes what all others find.
    _ = poll(Box::pin(S::sleep(RESETS[2])).as_mut()).await;
    let before = resident_bytes();
    for _ in 0..CONNECTIONS {
        let mut sleep = Box::pin(S::sleep(RESETS[2]));
        _ = poll(sleep.as_mut()).await;
        sleeps.push(sleep);
    }
    let (mut bytes, mut taken) = (0.0, Duration::ZERO);
    for timed in [false, true] {
        let start = Usage::now().cpu;
        let mut number = 0;
        unconstrained(async {
            while number < resets {
                let to = RESETS[number / CONNECTIONS % RESETS.len()];
                let mut sleep = sleeps[number % CONNECTIONS].as_mut();
                S::reset(sleep.as_mut(), to);
                // One that the machine has kept waiting for 25 ms may be over.
                _ = poll(sleep).await;
                number += 1;
                if number % YIELD == 0 {
                    yield_now().await;
                }
            }
        })
        .await;
        if timed {
            taken = Usage::now().cpu - start;
        }
        bytes = (resident_bytes() - before) / CONNECTIONS as f64;
    }
    vec![
        ("ns/reset", per(taken, resets)),
        ("bytes/connection", bytes),
    ]
}

/// The same with a timer of one thread, whose clock moves by a tick per thousand resets.
fn quic_local(scale: Scale) -> Metrics {
    let resets = scale.steps(4_000_000);
    let before = resident_bytes();
    let mut peer = LocalTimerPeer::new(CONNECTIONS);
    let mut keys: Vec<_> = (0..CONNECTIONS as u64)
        .map(|n| peer.schedule(RESETS[2], n))
        .collect();
    let (mut bytes, mut taken) = (0.0, Duration::ZERO);
    for timed in [false, true] {
        let start = Usage::now().cpu;
        for number in 0..resets {
            let key = &mut keys[number % CONNECTIONS];
            *key = peer.rearm(*key, RESETS[number / CONNECTIONS % RESETS.len()]);
            if number % YIELD == 0 {
                assert_eq!(peer.advance(Duration::from_millis(1)), 0);
            }
        }
        if timed {
            taken = Usage::now().cpu - start;
        }
        bytes = (resident_bytes() - before) / CONNECTIONS as f64;
    }
    vec![
        ("ns/reset", per(taken, resets)),
        ("bytes/connection", bytes),
    ]
}

/// So many connections, five times: each arms and drops a limit of its handshake, and arms an idle timeout and a
/// heartbeat. Then all are dropped.
async fn storm<S: Sleeps>(connections: usize) -> Metrics {
    const STORMS: usize = 5;
    _ = poll(Box::pin(S::sleep(HANDSHAKE)).as_mut()).await;
    // Written, so that it is there before the count begins.
    let mut kept: Vec<Option<Pin<Box<S::Sleep>>>> = Vec::new();
    kept.resize_with(2 * connections, || None);
    let before = resident_bytes();
    let mut calls = Vec::new();
    let start = Usage::now().cpu;
    for _ in 0..STORMS {
        for (number, places) in kept.chunks_mut(KEPT.len()).enumerate() {
            unconstrained(async {
                _ = poll(Box::pin(S::sleep(HANDSHAKE)).as_mut()).await;
                for (place, delay) in places.iter_mut().zip(KEPT) {
                    let call = (number as u64).is_multiple_of(SAMPLED).then(Instant::now);
                    let mut sleep = Box::pin(S::sleep(delay));
                    _ = poll(sleep.as_mut()).await;
                    calls.extend(call.map(|call| call.elapsed().as_nanos() as i64));
                    *place = Some(sleep);
                }
            })
            .await;
            if number % YIELD == 0 {
                yield_now().await;
            }
        }
        kept.iter_mut().for_each(|place| *place = None);
        yield_now().await;
    }
    let taken = Usage::now().cpu - start;
    vec![
        ("ns/connection", per(taken, STORMS * connections)),
        ("p99 of a call ns", Sorted::new(calls).at(0.99)),
        (
            "peak bytes/connection",
            (peak_bytes() - before) / connections as f64,
        ),
    ]
}

/// Sleeps that have ended: how many there were, how many were early, and how late one in [`SAMPLED`] was.
#[derive(Default)]
struct Ended {
    count: AtomicU64,
    early: AtomicU64,
    late_us: Mutex<Vec<i64>>,
}

impl Ended {
    fn note(&self, due: Instant) {
        let now = Instant::now();
        // ORDERING: Relaxed, here and below: counters.
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        if now < due {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        if count.is_multiple_of(SAMPLED) {
            let late = now.saturating_duration_since(due).as_micros() as i64;
            self.late_us.lock().expect("no task panics").push(late);
        }
    }

    /// Starts afresh after the warm-up, and returns the processor time so far.
    fn start(&self) -> Duration {
        self.late_us.lock().expect("no task panics").clear();
        self.count.store(0, Ordering::Relaxed);
        Usage::now().cpu
    }

    fn metrics(&self, since: Duration) -> Metrics {
        let (taken, count) = (Usage::now().cpu - since, self.count.load(Ordering::Relaxed));
        let late = std::mem::take(&mut *self.late_us.lock().expect("no task panics"));
        let late = Sorted::new(late);
        vec![
            ("CPU us/timer", per(taken, count as usize) / 1e3),
            ("p50 ms", late.at(0.5) / 1e3),
            ("p99 ms", late.at(0.99) / 1e3),
            ("early", self.early.load(Ordering::Relaxed) as f64),
        ]
    }
}

fn any_sleep(random: &mut Random) -> Duration {
    Duration::from_micros(SLEEP_US.start + random.below(SLEEP_US.end - SLEEP_US.start))
}

/// Tasks that sleep again and again, as many as make [`PER_SECOND`].
async fn beats<S: Sleeps>(watch: Duration) -> Metrics {
    let tasks = PER_SECOND * (SLEEP_US.start + SLEEP_US.end) / 2_000_000;
    let ended = Arc::new(Ended::default());
    for task in 0..tasks {
        let ended = Arc::clone(&ended);
        // Until the runtime goes.
        tokio::spawn(async move {
            let mut random = Random::new(task);
            loop {
                let delay = any_sleep(&mut random);
                let due = Instant::now() + delay;
                S::sleep(delay).await;
                ended.note(due);
            }
        });
    }
    S::sleep(watch / 4).await;
    let start = ended.start();
    S::sleep(watch).await;
    ended.metrics(start)
}

/// A task per timer, [`PER_SECOND`] of them, begun a hundred at a time.
async fn spawned<S: Sleeps>(watch: Duration) -> Metrics {
    let ended = Arc::new(Ended::default());
    let mut random = Random::new(0);
    let (begun, mut start, mut spawned) = (Instant::now(), None, 0);
    while begun.elapsed() < watch + watch / 4 {
        if start.is_none() && begun.elapsed() > watch / 4 {
            start = Some(ended.start());
        }
        let wanted = PER_SECOND * begun.elapsed().as_micros() as u64 / 1_000_000;
        while spawned < wanted {
            let (ended, delay) = (Arc::clone(&ended), any_sleep(&mut random));
            let due = Instant::now() + delay;
            tokio::spawn(async move {
                // Counts from here: the first poll of a task may come late.
                S::sleep(due.saturating_duration_since(Instant::now())).await;
                ended.note(due);
            });
            spawned += 1;
        }
        S::sleep(Duration::from_millis(1)).await;
    }
    ended.metrics(start.unwrap_or_default())
}

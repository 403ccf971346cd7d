//! idle, zombie and shrink: what timers cost that do nothing.

use super::peer::{CrossPeer, Setup};
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Usage, peak_bytes, per, resident_bytes};
use std::mem::needs_drop;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const MIB: f64 = 1024.0 * 1024.0;

/// Starts a peer with one timer, so that threads and pools are there before the count begins.
fn start<P: CrossPeer>() -> (P, P::Handle, f64) {
    let peer = P::start(Setup::new(Book::new(0, 0)));
    let first = peer.schedule(HOUR, 0);
    std::thread::sleep(Duration::from_millis(20));
    (peer, first, resident_bytes())
}

/// A million timers an hour away.
pub(super) fn idle<P: CrossPeer>(scale: Scale) -> Metrics {
    let timers = scale.timers(1_000_000);
    let (peer, first, base) = start::<P>();
    let mut kept = Vec::new();
    for n in 0..timers as u64 {
        let handle = peer.schedule(HOUR + Duration::from_millis(n % 60_000), n);
        // Dropped, a future would cancel its timer.
        if needs_drop::<P::Handle>() {
            kept.push(handle);
        }
    }
    // What was handed in has come to rest.
    std::thread::sleep(scale.watch(Duration::from_secs(2)));
    let bytes = resident_bytes() - base;

    let (before, start) = (Usage::now(), Instant::now());
    std::thread::sleep(scale.watch(Duration::from_secs(8)));
    let (after, watched) = (Usage::now(), start.elapsed().as_secs_f64());
    // What the user would have to keep in any case: a future in its task.
    let handles = (kept.len() * size_of_val(&first)) as f64;
    drop((first, kept));
    // This thread's own sleep is one.
    let sleeps = (after.sleeps - before.sleeps - 1).max(0) as f64;
    vec![
        ("bytes/timer", bytes / timers as f64),
        ("bytes beside handle", (bytes - handles) / timers as f64),
        ("wake-ups/s", sleeps / watched),
        ("CPU ms/s", (after.cpu - before.cpu).as_secs_f64() * 1e3 / watched),
    ]
}

/// Scheduled and cancelled at once.
pub(super) fn zombie<P: CrossPeer>(scale: Scale) -> Metrics {
    let zombies = scale.steps(10_000_000);
    let (peer, first, base) = start::<P>();
    let start = Instant::now();
    for n in 0..zombies as u64 {
        peer.cancel(peer.schedule(HOUR, n));
    }
    let taken = start.elapsed();
    std::thread::sleep(scale.watch(Duration::from_secs(2)));
    let (peak, last) = (peak_bytes() - base, resident_bytes() - base);
    peer.cancel(first);
    vec![("peak MiB", peak / MIB), ("final MiB", last / MIB), ("ns/pair", per(taken, zombies))]
}

/// Many timers at once, all of which are cancelled: what stays afterwards.
pub(super) fn shrink<P: CrossPeer>(scale: Scale) -> Metrics {
    let timers = scale.steps(5_000_000);
    // The handles' own memory is there before the count begins.
    let mut handles = Vec::with_capacity(timers);
    let (peer, first, base) = start::<P>();
    for n in 0..timers as u64 {
        handles.push(peer.schedule(HOUR + Duration::from_millis(n % 60_000), n));
    }
    let held = (timers * size_of_val(&first)) as f64;
    let peak = resident_bytes() - base - held;
    handles.drain(..).for_each(|handle| peer.cancel(handle));
    // A peer that tidies up with its next operations has some.
    for n in 0..100_000 {
        peer.cancel(peer.schedule(HOUR, n));
    }
    std::thread::sleep(scale.watch(Duration::from_secs(3)));
    let left = resident_bytes() - base - held;
    peer.cancel(first);
    vec![("left MiB", left / MIB), ("peak MiB", peak / MIB), ("left %", left / peak * 100.0)]
}

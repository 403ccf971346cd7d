//! late, burst and wake: when timers fire. idle, zombie and shrink: what timers cost that do nothing.

use super::{CrossPeer, InFlight, Setup};
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Sorted, Usage, peak_bytes, per, resident_bytes};
use crate::random::Random;
use std::mem::needs_drop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const MIB: f64 = 1024.0 * 1024.0;

/// Waits until all timers have fired.
fn wait_for(book: &Book, timers: usize) {
    let patience = Duration::from_secs(30);
    assert!(
        book.wait_for(timers, patience),
        "a timer has not fired within {patience:?}"
    );
}

/// A thread per core that never sleeps, until this is dropped.
struct BusyLoops {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyLoops {
    fn start() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let end = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let end = Arc::clone(&end);
            std::thread::spawn(move || {
                // ORDERING: Relaxed: it ends a little later at worst.
                while !end.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..cores).map(busy).collect();
        Self { end, threads }
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        // ORDERING: Relaxed: as above.
        self.end.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|it| _ = it.join());
    }
}

/// Timers at random over two seconds, beside busy loops if asked for.
pub(super) fn late<P: CrossPeer>(
    timers: usize,
    tick: Duration,
    busy: bool,
    scale: Scale,
) -> Metrics {
    let setup = Setup {
        tick,
        ..Setup::new(Book::new(0, timers))
    };
    let (book, peer) = (setup.book, P::start(setup));
    let span_us = if scale == Scale::Tiny {
        20_000
    } else {
        2_000_000
    };
    let mut rng = Random::new(0);
    let busy = busy.then(BusyLoops::start);
    let before = Usage::now().cpu;
    for payload in 0..timers as u64 {
        let delay = Duration::from_micros(1 + rng.below(span_us));
        book.due_in(payload, delay);
        peer.launch(delay, payload);
    }
    wait_for(book, timers);
    let cpu = Usage::now().cpu - before;
    let samples = Sorted::new(book.lateness());
    // The unit is the one that people think in at such a tick.
    let (unit, [p99, p50, p999, max]) = match tick < Duration::from_millis(1) {
        true => (1e3, ["p99 us", "p50 us", "p99.9 us", "max us"]),
        false => (1e6, ["p99 ms", "p50 ms", "p99.9 ms", "max ms"]),
    };
    let mut metrics = vec![
        (p99, samples.at(0.99) / unit),
        (p50, samples.at(0.5) / unit),
        (p999, samples.at(0.999) / unit),
        (max, samples.at(1.0) / unit),
        ("early", samples.negative() as f64),
    ];
    // The busy loops' own time would hide it.
    if busy.is_none() {
        metrics.push(("CPU us/timer", per(cpu, timers) / 1e3));
    }
    metrics
}

/// A million at once, others after them, and a producer that does not stop.
pub(super) fn burst<P: CrossPeer>(scale: Scale) -> Metrics {
    let (many, others) = (scale.timers(1_000_000), scale.timers(500_000) / 1000);
    let others = others.max(5);
    let setup = Setup {
        shards: Some(1),
        ..Setup::new(Book::new(many, others))
    };
    let (book, peer) = (setup.book, P::start(setup));
    let stop = Arc::new(AtomicBool::new(false));
    let producing = {
        let (peer, stop) = (peer.clone(), Arc::clone(&stop));
        let traffic = InFlight::new(peer.session(1), 1024);
        std::thread::spawn(move || {
            peer.run(vec![traffic], move |traffic| {
                traffic.run(512);
                // ORDERING: Relaxed: it ends a piece of work later at worst.
                !stop.load(Ordering::Relaxed)
            })
        })
    };
    let lead = Duration::from_millis(if scale == Scale::Tiny { 100 } else { 4_000 });
    let start = Instant::now();
    book.due_in(0, lead);
    for payload in 0..many as u64 {
        peer.launch(lead.saturating_sub(start.elapsed()), payload);
    }
    for n in 0..others as u64 {
        let delay = (lead + Duration::from_millis(1 + n)).saturating_sub(start.elapsed());
        book.due_in(many as u64 + n, delay);
        peer.launch(delay, many as u64 + n);
    }
    assert!(
        start.elapsed() < lead,
        "the burst was due before it was scheduled"
    );
    wait_for(book, others + 1);
    // ORDERING: Relaxed: as above.
    stop.store(true, Ordering::Relaxed);
    producing.join().expect("the producer does not panic");
    let samples = Sorted::new(book.lateness());
    let fired_in = book.counted_lateness().unwrap_or_default();
    vec![
        ("fired in ms", fired_in as f64 / 1e6),
        ("others p50 ms", samples.at(0.5) / 1e6),
        ("others max ms", samples.at(1.0) / 1e6),
        ("early", samples.negative() as f64),
    ]
}

/// Due at once, while the owner sleeps for an hour, beside busy loops if asked for.
pub(super) fn wake<P: CrossPeer>(busy: bool, scale: Scale) -> Metrics {
    let wakes = scale.steps(1000);
    let setup = Setup::new(Book::new(0, wakes));
    let (book, peer) = (setup.book, P::start(setup));
    let hour = peer.schedule(HOUR, 0);
    let _busy = busy.then(BusyLoops::start);
    for payload in 0..wakes as u64 {
        // Long enough that everybody has gone to sleep again, and not in step with any tick.
        std::thread::sleep(Duration::from_micros(1300 + payload % 7 * 100));
        book.due_in(payload, Duration::ZERO);
        peer.launch(Duration::ZERO, payload);
    }
    wait_for(book, wakes);
    peer.cancel(hour);
    let samples = Sorted::new(book.lateness());
    let at = |p| samples.at(p) / 1e3;
    vec![
        ("p50 us", at(0.5)),
        ("p99 us", at(0.99)),
        ("max us", at(1.0)),
    ]
}

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
        (
            "CPU ms/s",
            (after.cpu - before.cpu).as_secs_f64() * 1e3 / watched,
        ),
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
    vec![
        ("peak MiB", peak / MIB),
        ("final MiB", last / MIB),
        ("ns/pair", per(taken, zombies)),
    ]
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
    vec![
        ("left MiB", left / MIB),
        ("peak MiB", peak / MIB),
        ("left %", left / peak * 100.0),
    ]
}

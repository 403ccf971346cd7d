//! late, burst and wake: when timers fire.

use super::peer::{CrossPeer, Producer, Session, Setup};
use super::throughput::InFlight;
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Sorted, Usage, per};
use crate::stream::XorShift;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a peer may take beyond the last deadline.
const PATIENCE: Duration = Duration::from_secs(30);

/// Timers at random over two seconds.
pub(super) fn late<P: CrossPeer>(timers: usize, tick: Duration, scale: Scale) -> Metrics {
    let book = Arc::new(Book::new(timers));
    let mut setup = Setup::new(Arc::clone(&book));
    setup.tick = tick;
    let peer = P::start(setup);
    let mut session = peer.session(0);
    let span_us = if scale == Scale::Tiny { 20_000 } else { 2_000_000 };
    let mut rng = XorShift::default();
    let before = Usage::now().cpu;
    for payload in 0..timers as u64 {
        let delay = Duration::from_micros(1 + rng.below(span_us));
        book.due_in(payload, delay);
        session.launch(delay, payload);
    }
    let all = book.wait_for(timers, PATIENCE);
    let cpu = Usage::now().cpu - before;
    assert!(all, "a timer has not fired within {PATIENCE:?}");
    let samples = Sorted::new(book.lateness());
    let cpu_us = per(cpu, timers) / 1e3;
    // Whatever the tick, the table's unit is the one that people think in there.
    if tick < Duration::from_millis(1) {
        let at = |p| samples.at(p) / 1e3;
        vec![
            ("p99 us", at(0.99)),
            ("p50 us", at(0.5)),
            ("p99.9 us", at(0.999)),
            ("max us", at(1.0)),
            ("early", samples.negative() as f64),
            ("CPU us/timer", cpu_us),
        ]
    } else {
        let at = |p| samples.at(p) / 1e6;
        vec![
            ("p99 ms", at(0.99)),
            ("p50 ms", at(0.5)),
            ("p99.9 ms", at(0.999)),
            ("max ms", at(1.0)),
            ("early", samples.negative() as f64),
            ("CPU us/timer", cpu_us),
        ]
    }
}

/// A million at once, others after them, and a producer that does not stop.
pub(super) fn burst<P: CrossPeer>(scale: Scale) -> Metrics {
    let (many, others) = (scale.timers(1_000_000), scale.timers(500_000) / 1000);
    let others = others.max(5);
    let book = Arc::new(Book::partly_counted(many, others));
    let mut setup = Setup::new(Arc::clone(&book));
    setup.shards = Some(1);
    let peer = P::start(setup);
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut traffic = InFlight::new(peer.session(1), 1024);
        let producer: Producer = {
            let stop = Arc::clone(&stop);
            Box::new(move || {
                traffic.run(512);
                // ORDERING: Relaxed: it ends a piece of work later at worst.
                !stop.load(Ordering::Relaxed)
            })
        };
        scope.spawn(|| peer.run(vec![producer]));
        let mut session = peer.session(0);
        let lead = if scale == Scale::Tiny { 100 } else { 4_000 };
        let lead = Duration::from_millis(lead);
        let start = std::time::Instant::now();
        book.counted_due_in(lead);
        for payload in 0..many as u64 {
            session.launch(lead.saturating_sub(start.elapsed()), payload);
        }
        for n in 0..others as u64 {
            let delay = (lead + Duration::from_millis(1 + n)).saturating_sub(start.elapsed());
            book.due_in(many as u64 + n, delay);
            session.launch(delay, many as u64 + n);
        }
        assert!(start.elapsed() < lead, "the burst was due before it was scheduled");
        let all = book.wait_for(others + 1, PATIENCE);
        // ORDERING: Relaxed: as above.
        stop.store(true, Ordering::Relaxed);
        assert!(all, "a timer has not fired within {PATIENCE:?}");
    });
    let samples = Sorted::new(book.lateness());
    let fired_in = book.counted_lateness().unwrap_or_default();
    vec![
        ("fired in ms", fired_in as f64 / 1e6),
        ("others p50 ms", samples.at(0.5) / 1e6),
        ("others max ms", samples.at(1.0) / 1e6),
        ("early", samples.negative() as f64),
    ]
}

/// Due at once, while the owner sleeps for an hour.
pub(super) fn wake<P: CrossPeer>(scale: Scale) -> Metrics {
    let wakes = scale.steps(1000);
    let book = Arc::new(Book::new(wakes));
    let peer = P::start(Setup::new(Arc::clone(&book)));
    let mut session = peer.session(0);
    let hour = session.schedule(Duration::from_secs(3600), 0);
    for payload in 0..wakes as u64 {
        // Long enough that everybody has gone to sleep again, and not in step with any tick.
        std::thread::sleep(Duration::from_micros(1300 + payload % 7 * 100));
        book.due_in(payload, Duration::ZERO);
        session.launch(Duration::ZERO, payload);
    }
    assert!(book.wait_for(wakes, PATIENCE), "a timer has not fired within {PATIENCE:?}");
    session.cancel(hour);
    let samples = Sorted::new(book.lateness());
    let at = |p| samples.at(p) / 1e3;
    vec![("p50 us", at(0.5)), ("p99 us", at(0.99)), ("max us", at(1.0))]
}

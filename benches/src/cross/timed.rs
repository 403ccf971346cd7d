//! late, burst and wake: when timers fire.

use super::peer::{CrossPeer, Setup};
use super::throughput::InFlight;
use crate::book::Book;
use crate::figure::Scale;
use crate::measure::{Metrics, Sorted, Usage, per};
use crate::stream::XorShift;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Waits until all timers have fired.
fn wait_for(book: &Book, timers: usize) {
    let patience = Duration::from_secs(30);
    assert!(book.wait_for(timers, patience), "a timer has not fired within {patience:?}");
}

/// Timers at random over two seconds.
pub(super) fn late<P: CrossPeer>(timers: usize, tick: Duration, scale: Scale) -> Metrics {
    let setup = Setup { tick, ..Setup::new(Book::new(0, timers)) };
    let (book, peer) = (setup.book, P::start(setup));
    let span_us = if scale == Scale::Tiny { 20_000 } else { 2_000_000 };
    let mut rng = XorShift::default();
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
    vec![
        (p99, samples.at(0.99) / unit),
        (p50, samples.at(0.5) / unit),
        (p999, samples.at(0.999) / unit),
        (max, samples.at(1.0) / unit),
        ("early", samples.negative() as f64),
        ("CPU us/timer", per(cpu, timers) / 1e3),
    ]
}

/// A million at once, others after them, and a producer that does not stop.
pub(super) fn burst<P: CrossPeer>(scale: Scale) -> Metrics {
    let (many, others) = (scale.timers(1_000_000), scale.timers(500_000) / 1000);
    let others = others.max(5);
    let setup = Setup { shards: Some(1), ..Setup::new(Book::new(many, others)) };
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
    assert!(start.elapsed() < lead, "the burst was due before it was scheduled");
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

/// Due at once, while the owner sleeps for an hour.
pub(super) fn wake<P: CrossPeer>(scale: Scale) -> Metrics {
    let wakes = scale.steps(1000);
    let setup = Setup::new(Book::new(0, wakes));
    let (book, peer) = (setup.book, P::start(setup));
    let hour = peer.schedule(Duration::from_secs(3600), 0);
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
    vec![("p50 us", at(0.5)), ("p99 us", at(0.99)), ("max us", at(1.0))]
}

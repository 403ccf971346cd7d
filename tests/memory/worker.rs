//! A worker calls the allocator neither in the steady state nor under overload: a thread that stops inside the
//! allocator, with the lock of an arena, stops no worker.

use crate::allocator::{
    calls, go_on, has_stopped, stop_at_the_next_call, wait_for_whoever_has_stopped,
};
use crate::support::random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, MissedTicks, Period, Timer};

const HOUR: Duration = Duration::from_secs(3600);

/// An engine with one worker that tells how often it has been in the allocator, whenever a timer fires.
struct Counted {
    timer: Timer<u64>,
    on_worker: Arc<AtomicU64>,
}

impl Counted {
    fn new() -> Self {
        let on_worker = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&on_worker);
        let tell = move |_: Expired<u64>| told.store(calls(), Ordering::Relaxed);
        let timer: Timer<u64> = Builder::new().shards(1).build_with(tell).unwrap();
        let every = Period::fixed_rate(Duration::from_millis(1), MissedTicks::Skip).unwrap();
        timer.schedule_periodic(Duration::ZERO, every, 0).unwrap();
        Self { timer, on_worker }
    }

    /// Timers scheduled and cancelled by so many threads, each of which keeps `alive` of them; how often the worker has
    /// been in the allocator by then.
    fn calls_after(&self, producers: u64, pairs: u64, alive: usize, paced: bool) -> u64 {
        let produce = |producer: u64| {
            let mut random = Random::new(producer + 1);
            let mut keys = Vec::new();
            for n in 0..pairs / producers {
                keys.push(self.timer.schedule_key(HOUR, n).unwrap());
                if keys.len() > alive {
                    let at = random.below(keys.len() as u64) as usize;
                    assert!(self.timer.cancel(keys.swap_remove(at)).won());
                }
                if paced && n % 1000 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            keys.into_iter().for_each(|key| assert!(self.timer.cancel(key).won()));
        };
        let produce = &produce;
        std::thread::scope(|scope| {
            (0..producers).for_each(|producer| _ = scope.spawn(move || produce(producer)));
        });
        let fired = self.timer.schedule(Duration::ZERO, 0).unwrap();
        while fired.is_pending() {
            std::thread::yield_now();
        }
        self.timer.wait_idle();
        self.on_worker.load(Ordering::Relaxed)
    }
}

/// What is alive swings: each round begins and ends with nothing, the one before the count with more than the others.
#[test]
fn a_worker_does_not_call_the_allocator() {
    let _alone = crate::alone();
    for (producers, pairs, paced) in
        [(3, 300_000, true), (1, 2_000_000, false), (3, 2_000_000, false)]
    {
        for alive in [0, 500, 20_000] {
            let counted = Counted::new();
            counted.calls_after(3, 200_000, 2 * alive + 3000, false);
            let before = counted.calls_after(producers, pairs / 10, alive, paced);
            let after = counted.calls_after(producers, pairs, alive, paced);
            assert_eq!(after - before, 0, "{producers} producers, {alive} timers alive for each");
        }
    }
}

/// The worker shares its arena with a producer that stops in there, where it gets memory or gives some back.
#[test]
fn a_producer_that_stops_in_the_allocator_stops_no_worker() {
    let _alone = crate::alone();
    for call in 0..16 {
        let fired = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&fired);
        let timer: Timer<u64> = Builder::new()
            .shards(1)
            .build_with(move |_: Expired<u64>| {
                wait_for_whoever_has_stopped();
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        let (own, done) = (timer.clone(), Arc::new(AtomicBool::new(false)));
        let may_end = Arc::clone(&done);
        let churn = |timer: &Timer<u64>, pairs: u64| {
            for n in 0..pairs {
                assert!(timer.cancel(timer.schedule_key(HOUR, n).unwrap()).won());
            }
        };
        // The worker knows its arena, and blocks go round, before anybody stops.
        timer.schedule_key(Duration::ZERO, 0).unwrap();
        while fired.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        churn(&timer, 20_000);
        let stopping = std::thread::spawn(move || {
            churn(&own, 100_000);
            stop_at_the_next_call(call);
            while !may_end.load(Ordering::Relaxed) {
                churn(&own, 1000);
            }
        });
        let since = Instant::now();
        while !has_stopped() && since.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(has_stopped(), "the producer needs no memory");
        let before = fired.load(Ordering::Relaxed);
        let since = Instant::now();
        for _ in 0..20 {
            timer.schedule_key(Duration::from_micros(300), 0).unwrap();
            churn(&timer, 5000);
        }
        while fired.load(Ordering::Relaxed) < before + 20
            && since.elapsed() < Duration::from_secs(20)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let fired = fired.load(Ordering::Relaxed) - before;
        done.store(true, Ordering::Relaxed);
        go_on();
        stopping.join().unwrap();
        assert_eq!(fired, 20, "beside a producer that stands in its call number {call}");
    }
}

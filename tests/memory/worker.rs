//! A worker calls the allocator neither in the steady state nor under overload: a thread that stops inside the
//! allocator, with an arena's lock, stops no worker.

use crate::allocator::calls;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tickwheel::{Builder, Expired, MissedTicks, Period, Timer};

const HOUR: Duration = Duration::from_secs(3600);

/// Timers scheduled and cancelled at full speed by so many threads; how often the worker was in the allocator
/// meanwhile.
fn calls_beside(producers: u64, pairs: u64, pause: Option<Duration>) -> u64 {
    let on_worker = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&on_worker);
    let timer: Timer<u64> = Builder::new()
        .shards(1)
        .build_with(move |_: Expired<u64>| told.store(calls(), Ordering::Relaxed))
        .unwrap();
    let run = |pairs: u64| {
        std::thread::scope(|scope| {
            for _ in 0..producers {
                scope.spawn(|| {
                    for n in 0..pairs / producers {
                        let key = timer.schedule_key(HOUR, n).unwrap();
                        assert!(timer.cancel(key).won());
                        if let Some(pause) = pause.filter(|_| n % 1000 == 0) {
                            std::thread::sleep(pause);
                        }
                    }
                });
            }
        });
        let fired = timer.schedule(Duration::ZERO, 0).unwrap();
        while fired.is_pending() {
            std::thread::yield_now();
        }
        timer.wait_idle();
        on_worker.load(Ordering::Relaxed)
    };
    let every = Period::fixed_rate(Duration::from_millis(1), MissedTicks::Skip).unwrap();
    timer.schedule_periodic(Duration::ZERO, every, 0).unwrap();
    let before = run(pairs);
    run(pairs) - before
}

#[test]
fn in_the_steady_state_a_worker_does_not_call_the_allocator() {
    let _alone = crate::alone();
    assert_eq!(calls_beside(3, 300_000, Some(Duration::from_millis(1))), 0);
}

#[test]
fn under_overload_a_worker_does_not_call_the_allocator() {
    let _alone = crate::alone();
    for producers in [1, 3] {
        assert_eq!(calls_beside(producers, 3_000_000, None), 0, "{producers} producers");
    }
}

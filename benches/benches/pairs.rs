//! Schedule, cancel and move one timer, front by front: the figures of a single call, by criterion.

use criterion::Criterion;
use std::hint::black_box;
use std::time::Duration;
use tickwheel::{Builder, Drive, EventLoopTimer, Expired, LocalTimer, ManualClock, Settings, Time};

const DELAY: Duration = Duration::from_secs(20);
/// Timers that are pending meanwhile.
const RESIDENTS: u64 = 1_000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    criterion = criterion.warm_up_time(Duration::from_millis(300));
    criterion = criterion.measurement_time(Duration::from_secs(1));
    let builder = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(ManualClock::new());
    let timer = builder
        .build_with(|_: Expired<u64>| ())
        .expect("the settings are valid");
    let mut local = LocalTimer::new(Duration::from_millis(1)).expect("the tick is valid");
    let mut looped =
        EventLoopTimer::with_waker(Settings::new(), || ()).expect("the settings are valid");
    let schedule = || timer.schedule(DELAY, 17).expect("there is room");
    for _ in 0..RESIDENTS {
        schedule();
        local
            .schedule(Time::ZERO, DELAY, 17)
            .expect("there is room");
        looped
            .schedule(Time::ZERO, DELAY, 17)
            .expect("there is room");
    }
    criterion.bench_function("Timer/pair by key", |bencher| {
        bencher.iter(|| timer.cancel(black_box(schedule())).is_won());
    });
    criterion.bench_function("Timer/pair by handle", |bencher| {
        bencher.iter(|| {
            timer
                .schedule_handle(DELAY, 17)
                .expect("there is room")
                .cancel()
                .is_won()
        });
    });
    let (key, mut delay) = (schedule(), DELAY);
    criterion.bench_function("Timer/reschedule, later", |bencher| {
        bencher.iter(|| {
            delay += Duration::from_micros(1);
            timer.reschedule(key, delay).is_moved()
        });
    });
    criterion.bench_function("one thread/LocalTimer pair", |bencher| {
        bencher.iter(|| {
            let key = local
                .schedule(Time::ZERO, DELAY, 17)
                .expect("there is room");
            local.cancel(black_box(key)).is_won()
        });
    });
    criterion.bench_function("one thread/EventLoopTimer pair", |bencher| {
        bencher.iter(|| {
            let key = looped
                .schedule(Time::ZERO, DELAY, 17)
                .expect("there is room");
            looped.cancel(black_box(key)).is_won()
        });
    });
    criterion.final_summary();
}

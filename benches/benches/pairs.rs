//! Schedule, cancel and move one timer, front by front: the figures of a single call, by criterion.

use criterion::{BenchmarkGroup, Criterion};
use std::hint::black_box;
use std::time::Duration;
use tickwheel::{
    Builder, Drive, EventLoopTimer, Expired, LocalTimer, ManualClock, Settings, Time, Timer,
};

const DELAY: Duration = Duration::from_secs(20);
/// Timers that are pending meanwhile.
const RESIDENTS: u64 = 1_000;

type Group<'a> = BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20).warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(1));
    group
}

fn engine(criterion: &mut Criterion) {
    let mut group = group(criterion, "Timer");
    let builder = Builder::new().shards(1).drive(Drive::Manual).clock(ManualClock::new());
    let timer = builder.build_with(|_: Expired<u64>| ()).expect("the settings are valid");
    let schedule = |timer: &Timer<u64>| timer.schedule_key(DELAY, 17).expect("there is room");
    (0..RESIDENTS).for_each(|_| _ = schedule(&timer));
    group.bench_function("pair by key", |bencher| {
        bencher.iter(|| timer.cancel(black_box(schedule(&timer))).won());
    });
    group.bench_function("pair by handle", |bencher| {
        bencher.iter(|| timer.schedule(DELAY, 17).expect("there is room").cancel().won());
    });
    let (key, mut delay) = (schedule(&timer), DELAY);
    group.bench_function("reschedule, later", |bencher| {
        bencher.iter(|| {
            delay += Duration::from_micros(1);
            timer.reschedule(key, delay).moved()
        });
    });
}

fn loops(criterion: &mut Criterion) {
    let mut group = group(criterion, "one thread");
    let mut local = LocalTimer::new(Duration::from_millis(1)).expect("the tick is valid");
    let mut looped: EventLoopTimer<u64> =
        Settings::new().build_with_waker(|| ()).expect("the settings are valid");
    for _ in 0..RESIDENTS {
        local.schedule(Time::ZERO, DELAY, 17).expect("there is room");
        looped.schedule(Time::ZERO, DELAY, 17).expect("there is room");
    }
    group.bench_function("LocalTimer pair", |bencher| {
        bencher.iter(|| {
            let key = local.schedule(Time::ZERO, DELAY, 17).expect("there is room");
            local.cancel(black_box(key)).won()
        });
    });
    group.bench_function("EventLoopTimer pair", |bencher| {
        bencher.iter(|| {
            let key = looped.schedule(Time::ZERO, DELAY, 17).expect("there is room");
            looped.cancel(black_box(key)).won()
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    engine(&mut criterion);
    loops(&mut criterion);
    criterion.final_summary();
}

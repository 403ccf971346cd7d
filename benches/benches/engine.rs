//! The engine from other threads: schedule, cancel, reschedule, with a `u64` and with a closure; the same for
//! a remote of an event loop.
//!
//! Schedules and cancels are timed in batches, one half of each pair at a time.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tickwheel::{Builder, EventLoopTimer, Expired, Key, Remote, Task, Timer};

const BATCH: usize = 1024;
const DELAY: Duration = Duration::from_secs(20);

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).throughput(Throughput::Elements(1));
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group
}

/// Which half of a pair is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Schedule,
    Cancel,
}

/// Makes `pairs` pairs in batches and times one half.
fn halves(
    pairs: u64,
    timed: Half,
    mut schedule: impl FnMut() -> Key<u64>,
    mut cancel: impl FnMut(Key<u64>),
) -> Duration {
    let (mut keys, mut taken, mut left) = (Vec::with_capacity(BATCH), Duration::ZERO, pairs);
    while left > 0 {
        let batch = left.min(BATCH as u64);
        let start = Instant::now();
        keys.extend((0..batch).map(|_| schedule()));
        let middle = Instant::now();
        keys.drain(..).for_each(&mut cancel);
        taken += if timed == Half::Schedule { middle - start } else { middle.elapsed() };
        left -= batch;
    }
    taken
}

fn numbers() -> Timer<u64> {
    Builder::new().build_with(|_: Expired<u64>| ()).expect("the defaults are valid")
}

fn engine(criterion: &mut Criterion) {
    let mut group = group(criterion, "engine");
    let timer = numbers();
    for (name, half) in [("schedule_key", Half::Schedule), ("cancel", Half::Cancel)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|pairs| {
                let schedule = || timer.schedule_key(DELAY, 17_u64).expect("no limit");
                halves(pairs, half, schedule, |key| _ = black_box(timer.cancel(key)))
            });
        });
    }
    group.bench_function("schedule (with a handle) + drop", |bencher| {
        bencher.iter_custom(|pairs| {
            let (mut handles, mut taken, mut left) = (Vec::new(), Duration::ZERO, pairs);
            while left > 0 {
                let batch = left.min(BATCH as u64);
                let start = Instant::now();
                let one = |_| timer.schedule(DELAY, 17_u64).expect("no limit");
                handles.extend((0..batch).map(one));
                taken += start.elapsed();
                handles.drain(..).for_each(|handle| _ = black_box(handle.cancel()));
                left -= batch;
            }
            taken
        });
    });
    let key = timer.schedule_key(DELAY, 17_u64).expect("no limit");
    let mut delay = DELAY;
    group.bench_function("reschedule, later", |bencher| {
        bencher.iter(|| {
            delay += Duration::from_micros(1);
            timer.reschedule(key, delay).moved()
        });
    });
    let closures = Timer::new().expect("the defaults are valid");
    group.bench_function("schedule_key + cancel, a closure", |bencher| {
        bencher.iter(|| {
            let captured = black_box(17_u64);
            let key = closures.schedule_key(DELAY, Task::new(move || _ = black_box(captured)));
            closures.cancel(key.expect("no limit")).won()
        });
    });
}

/// A loop's remote, used by this thread while another one turns the loop.
fn remote(criterion: &mut Criterion) {
    let mut group = group(criterion, "remote");
    let (give, take) = std::sync::mpsc::channel::<Remote<u64>>();
    let owner = std::thread::spawn(move || {
        let this = std::thread::current();
        let builder = EventLoopTimer::builder();
        let mut timer = builder.build_with_waker(move || this.unpark()).expect("valid");
        give.send(timer.remote()).expect("the bench waits for it");
        // Until the last timer, which ends the bench, has fired.
        let mut fired = 0;
        while fired == 0 {
            match timer.poll_timeout(timer.now()) {
                Some(sleep) => std::thread::park_timeout(sleep),
                None => std::thread::park(),
            }
            fired = timer.poll(timer.now(), |_| ()).fired;
        }
    });
    let remote = take.recv().expect("the loop starts");
    for (name, half) in [("schedule", Half::Schedule), ("cancel", Half::Cancel)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|pairs| {
                let schedule = || remote.schedule(DELAY, 17_u64).expect("the loop lives");
                halves(pairs, half, schedule, |key| _ = black_box(remote.cancel(key)))
            });
        });
    }
    remote.schedule(Duration::ZERO, 0_u64).expect("the loop lives");
    owner.join().expect("the loop ends");
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    engine(&mut criterion);
    remote(&mut criterion);
    criterion.final_summary();
}

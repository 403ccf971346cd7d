//! churn, churn-tick, life and rearm of the timers of one thread: tickwheel and its peers side by side.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use std::time::Duration;
use tickwheel_benches::figure::short;
use tickwheel_benches::local::{
    Churn, DelayQueuePeer, EventLoopPeer, HeapPeer, LONG, LocalPeer, LocalTimerPeer, NexusPeer,
    SHORT, TokioSleepPeer, life, rearm,
};

/// Resident timers; ten million of some peers take minutes, so they are left to `compare`.
const RESIDENTS: [usize; 3] = [1_000, 100_000, 1_000_000];

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).throughput(Throughput::Elements(1));
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    group
}

/// A churn that is built and settled once, whatever criterion asks for.
fn with_churn<P: LocalPeer>(
    group: &mut Group<'_>,
    name: &str,
    residents: usize,
    per_tick: Option<usize>,
    run: fn(&mut Churn<P>, usize) -> Duration,
) {
    let mut built = None;
    group.bench_function(BenchmarkId::new(name, short(residents)), |bencher| {
        let churn = built.get_or_insert_with(|| {
            let delays = if per_tick.is_some() { SHORT } else { LONG };
            let mut churn = Churn::<P>::new(residents, delays, per_tick);
            churn.run(2 * residents);
            churn
        });
        bencher.iter_custom(|pairs| run(churn, usize::try_from(pairs).unwrap_or(usize::MAX)));
    });
    if let Some(churn) = built {
        churn.end();
    }
}

/// The same for everybody.
macro_rules! everybody {
    ($call:ident, $group:expr $(, $argument:expr)*) => {
        $call::<LocalTimerPeer>($group, "LocalTimer" $(, $argument)*);
        $call::<EventLoopPeer>($group, "EventLoopTimer" $(, $argument)*);
        $call::<NexusPeer>($group, "nexus-timer" $(, $argument)*);
        $call::<DelayQueuePeer>($group, "DelayQueue" $(, $argument)*);
        $call::<TokioSleepPeer>($group, "tokio sleep" $(, $argument)*);
        $call::<HeapPeer>($group, "BinaryHeap" $(, $argument)*);
    };
}

fn churns(criterion: &mut Criterion) {
    let mut group = group(criterion, "churn");
    for residents in RESIDENTS {
        everybody!(with_churn, &mut group, residents, None, Churn::run);
    }
}

fn churn_ticks(criterion: &mut Criterion) {
    let mut group = group(criterion, "churn-tick");
    for residents in [100_000, 1_000_000] {
        everybody!(with_churn, &mut group, residents, Some(residents / 1000), Churn::run);
    }
}

fn rearms(criterion: &mut Criterion) {
    let mut group = group(criterion, "rearm");
    everybody!(with_churn, &mut group, 100_000, None, rearm);
}

/// A whole life of a hundred thousand timers per iteration.
fn one_life<P: LocalPeer>(group: &mut Group<'_>, name: &str, timers: usize) {
    group.bench_function(BenchmarkId::new(name, short(timers)), |bencher| {
        bencher.iter_custom(|lives| {
            let lives = (0..lives).map(|_| life::<P>(timers));
            lives.map(|(schedule, fire)| schedule + fire).sum()
        });
    });
}

fn lives(criterion: &mut Criterion) {
    let timers = 100_000;
    let mut group = group(criterion, "life");
    group.throughput(Throughput::Elements(timers as u64));
    everybody!(one_life, &mut group, timers);
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    churns(&mut criterion);
    churn_ticks(&mut criterion);
    rearms(&mut criterion);
    lives(&mut criterion);
    criterion.final_summary();
}

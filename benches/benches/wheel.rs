//! The wheels by themselves: insert, and advance over what was inserted.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tickwheel::wheel::{Entry, Hashed, Hierarchical, Wheel};
use tickwheel_benches::figure::short;
use tickwheel_benches::stream::XorShift;

/// Ticks over which the deadlines are spread: inside one ring, inside the hashed wheel, far beyond both.
const SPANS: [u64; 3] = [60, 4_000, 3_600_000];
const ENTRIES: usize = 100_000;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Fills a wheel and empties it again; how long each half took.
fn fill_and_empty(wheel: &mut impl Wheel, span: u64, due: &mut Vec<Entry>) -> (Duration, Duration) {
    let mut rng = XorShift::default();
    let hand = wheel.hand();
    let entries: Vec<_> = (0..ENTRIES)
        // Below a hundred thousand.
        .map(|n| Entry { deadline: hand + 1 + rng.below(span), index: n as u32, mark: 0 })
        .collect();
    let start = Instant::now();
    entries.into_iter().for_each(|entry| wheel.insert(entry));
    let filled = start.elapsed();
    let start = Instant::now();
    let mut fired = 0;
    while let Some(next) = wheel.next_deadline() {
        while wheel.advance(next, 4096, due) {}
        fired += black_box(&*due).len();
        due.clear();
    }
    let emptied = start.elapsed();
    assert_eq!(fired, ENTRIES);
    (filled, emptied)
}

fn bench<W: Wheel>(group: &mut Group<'_>, name: &str, span: u64, make: fn() -> W) {
    for half in ["insert", "advance"] {
        let id =
            BenchmarkId::new(format!("{name} {half}"), format!("{} ticks", short(span as usize)));
        group.bench_function(id, |bencher| {
            let (mut wheel, mut due) = (make(), Vec::new());
            bencher.iter_custom(|rounds| {
                let round = |_| fill_and_empty(&mut wheel, span, &mut due);
                let halves = (0..rounds).map(round);
                halves.map(|it| if half == "insert" { it.0 } else { it.1 }).sum()
            });
        });
    }
}

fn wheels(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wheel");
    group.sample_size(10).throughput(Throughput::Elements(ENTRIES as u64));
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    for span in SPANS {
        bench(&mut group, "hierarchical", span, Hierarchical::new);
        bench(&mut group, "hashed", span, || Hashed::new(4096));
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    wheels(&mut criterion);
    criterion.final_summary();
}

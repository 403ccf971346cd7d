//! Histograms against what was recorded.

use super::*;
use proptest::prelude::*;

fn record_all(values: &[u64]) -> DurationHistogram {
    let recorder = Recorder::default();
    values
        .iter()
        .for_each(|&ns| recorder.record(Sample::of(ns)));
    recorder.snapshot()
}

/// The percentile by definition: the smallest value that at least `percent` per cent, from 0 to 100, do not
/// exceed.
fn exact(sorted: &[u64], percent: f64) -> u64 {
    let rank = (percent.clamp(0.0, 100.0) / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted[rank.max(1) - 1]
}

fn lateness() -> impl Strategy<Value = u64> {
    prop_oneof![
        (any::<u64>(), 0..64_u32).prop_map(|(n, shift)| n >> shift),
        0..100_u64,
        0..1_000_000_u64,
    ]
}

proptest! {
    #[test]
    fn percentiles_are_close_and_never_below(
        mut values in prop::collection::vec(lateness(), 1..300),
        percents in prop::collection::vec(-10.0..=110.0, 5),
    ) {
        let histogram = record_all(&values);
        values.sort_unstable();
        let max = values[values.len() - 1];
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!(histogram.max(), Duration::from_nanos(max));
        for percent in percents.into_iter().chain([0.0, 50.0, 99.0, 100.0, f64::MAX]) {
            let true_ns = exact(&values, percent);
            let told = histogram.percentile(percent).as_nanos() as u64;
            prop_assert!(told >= true_ns && told <= max, "{told} for {true_ns}, max {max}");
            if true_ns < 1 << RANGE_BITS {
                prop_assert!(told - true_ns <= true_ns / 8, "{told} for {true_ns}");
            }
        }
    }

    #[test]
    fn merging_is_recording_both(
        a in prop::collection::vec(lateness(), 0..50),
        b in prop::collection::vec(lateness(), 0..50),
    ) {
        let mut merged = DurationHistogram::default();
        merged.merge(&record_all(&a));
        merged.merge(&record_all(&b));
        prop_assert_eq!(merged, record_all(&[a, b].concat()));
    }
}

#[test]
fn buckets_follow_one_another_without_gap() {
    for bucket in 0..LAST {
        assert_eq!(Sample::of(upper_ns(bucket)).bucket, bucket);
        assert_eq!(Sample::of(upper_ns(bucket) + 1).bucket, bucket + 1);
    }
    assert_eq!(Sample::of(u64::MAX).bucket, LAST);
    assert_eq!(upper_ns(LAST - 1) + 1, 1 << RANGE_BITS);
    assert_eq!(BUCKETS, 321);
}

#[test]
fn an_empty_histogram_answers_zero() {
    let some = record_all(&[10, 20]);
    for empty in [
        DurationHistogram::default(),
        record_all(&[]),
        some.since(&some),
    ] {
        assert_eq!((empty.count(), empty.buckets().count()), (0, 0));
        let durations = [
            empty.sum(),
            empty.max(),
            empty.mean(),
            empty.percentile(99.0),
        ];
        assert_eq!(durations, [Duration::ZERO; 4]);
    }
}

/// As of one that a program merges into itself by mistake.
#[test]
fn counts_end_at_the_largest_number() {
    let mut all = record_all(&[10, 20]);
    let once = all.clone();
    for _ in 0..70 {
        let same = all.clone();
        all.merge(&same);
    }
    let ends = [all.count(), all.since(&once).count()];
    assert_eq!(ends, [u64::MAX; 2]);
    assert!(all.percentile(100.0) <= all.max());
}

#[test]
fn a_difference_is_what_came_in_between() {
    let recorder = Recorder::default();
    [10, 20, 5_000_000]
        .into_iter()
        .for_each(|ns| recorder.record(Sample::of(ns)));
    let earlier = recorder.snapshot();
    assert_eq!(earlier.since(&DurationHistogram::default()).count(), 3);
    [30, 70_000]
        .into_iter()
        .for_each(|ns| recorder.record(Sample::of(ns)));
    let between = recorder.snapshot().since(&earlier);
    assert_eq!(
        (between.count(), between.sum()),
        (2, Duration::from_nanos(70_030))
    );
    let max = between.max().as_nanos() as u64;
    assert!((70_000..=70_000 + 70_000 / 8).contains(&max), "{max}");
    assert_eq!(between.percentile(100.0), between.max());
}

#[test]
fn mean_and_buckets_add_up() {
    let histogram = record_all(&[10, 20, 60, 60, u64::MAX]);
    let counted: u64 = histogram.buckets().map(|(_, count)| count).sum();
    assert_eq!(counted, 5);
    assert!(histogram.buckets().map(|(upper, _)| upper).is_sorted());
    assert_eq!(
        histogram.percentile(f64::NAN),
        Duration::from_nanos(u64::MAX)
    );
    assert_eq!(
        record_all(&[10, 20, 60, 61]).mean(),
        Duration::from_nanos(37)
    );
    assert!(format!("{histogram:?}").starts_with("DurationHistogram { count: 5, mean"));
}

//! The results for machines.

use serde_json::{Map, Value, json};

use super::{Outcome, PERCENTILES};

/// One JSON object, times in nanoseconds and sizes in bytes as the names say.
pub(crate) fn render(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let settings: Map<String, Value> =
        outcome.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut all = json!({
        "tool": "tickwheel loadtest",
        "version": env!("CARGO_PKG_VERSION"),
        "title": outcome.title,
        "verdict": verdict.word(),
        "accepted": verdict.accepted,
        "fired": verdict.fired,
        "cancelled": verdict.cancelled,
        "returned": verdict.returned,
        "refused": verdict.refused,
        "refused_after_stop": verdict.refused_after_stop,
        "rescheduled": verdict.rescheduled,
        "early": verdict.early,
        "twice": verdict.twice,
        "lost": verdict.lost,
        "mismatches": verdict.mismatches,
        "evidence": verdict.evidence,
        "interrupted": outcome.interrupted,
        "seconds": outcome.seconds,
        "pairs_per_second": outcome.pairs_per_second(),
        "cost": outcome.cost,
        "memory": outcome.memory,
        "wakes": outcome.wakes,
        "shards": outcome.shards,
        "settings": settings,
        "machine": outcome.machine,
        "samples": outcome.samples,
    });
    for (name, histogram) in outcome.distributions() {
        // A distribution without a single value has no percentiles: null, not 0.
        let value = |ns: u64| {
            if histogram.is_empty() { Value::Null } else { json!(ns) }
        };
        for (_, suffix, percentile) in PERCENTILES {
            let ns = histogram.value_at_percentile(percentile);
            all[format!("{name}_{suffix}_ns")] = value(ns);
        }
        all[format!("{name}_max_ns")] = value(histogram.max());
        all[format!("{name}_count")] = json!(histogram.len());
    }
    let mut text = serde_json::to_string_pretty(&all).expect("plain values always serialize");
    text.push('\n');
    text
}

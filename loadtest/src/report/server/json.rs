//! The results for machines.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::{TITLE, held};
use crate::report::PERCENTILES;
use crate::server::{KINDS, KindTally, ServerOutcome};

/// One JSON object, times in nanoseconds and sizes in bytes as the names say.
pub(super) fn render(outcome: &ServerOutcome) -> String {
    let verdict = &outcome.verdict;
    let settings: Map<String, Value> =
        outcome.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let kinds: Map<String, Value> =
        KINDS.into_iter().map(|kind| (kind.to_string(), figures(outcome.tally.of(kind)))).collect();
    let mut all = json!({
        "tool": "tickwheel loadtest",
        "version": env!("CARGO_PKG_VERSION"),
        "title": TITLE,
        "verdict": verdict.word(),
        "early": verdict.early,
        "forgotten": verdict.forgotten,
        "corrupt": verdict.corrupt,
        "mismatches": verdict.mismatches,
        "evidence": verdict.evidence,
        "interrupted": outcome.interrupted,
        "seconds": outcome.seconds,
        "held_most": held(outcome).0,
        "kinds": kinds,
        "server": outcome.server,
        "clients": { "cost": outcome.client_cost, "peak_bytes": outcome.client_peak_bytes },
        "settings": settings,
        "machine": outcome.machine,
        "remark": outcome.remark,
        "samples": outcome.samples,
    });
    if let (Some(all), Value::Object(sums)) = (all.as_object_mut(), figures(&outcome.tally.all())) {
        all.extend(sums);
    }
    let mut text = serde_json::to_string_pretty(&all).expect("plain values always serialize");
    text.push('\n');
    text
}

fn figures(tally: &KindTally) -> Value {
    let mut figures = json!({
        "opened": tally.opened,
        "closed": tally.closed,
        "open_at_end": tally.open,
        "excused": tally.excused,
        "sent_bytes": tally.sent,
        "echoed_bytes": tally.echoed,
        "heartbeats": tally.heartbeats,
    });
    for (name, histogram) in [("lateness", &tally.lateness), ("round_trip", &tally.round_trip)] {
        distribution(&mut figures, name, histogram);
    }
    figures
}

/// A distribution without a single value has no percentiles: null, not 0.
fn distribution(figures: &mut Value, name: &str, histogram: &Histogram<u64>) {
    let value = |ns: u64| if histogram.is_empty() { Value::Null } else { json!(ns) };
    for (_, suffix, percentile) in PERCENTILES {
        figures[format!("{name}_{suffix}_ns")] = value(histogram.value_at_percentile(percentile));
    }
    figures[format!("{name}_max_ns")] = value(histogram.max());
    figures[format!("{name}_count")] = json!(histogram.len());
}

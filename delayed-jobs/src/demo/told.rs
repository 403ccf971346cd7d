//! The demonstration as a report.

use std::time::Duration;

use tickwheel_loadtest::parts::{
    Cell, Distribution, Figure, Phase, Report, Setting, Table, Timeline, Unit, Verdict, histogram,
};

use super::DemoSettings;
use super::books::{Audit, Books};
use super::trouble::Troubles;

pub(super) fn report(
    settings: &DemoSettings,
    books: &Books,
    troubles: &Troubles,
    seconds: &[(u64, u64)],
    took: Duration,
) -> Report {
    let audit = books.audit();
    let phase = Phase {
        name: "demo",
        settings: Vec::new(),
        seconds: settings.duration.as_secs_f64(),
        verdict: verdict(&audit),
        figures: figures(&audit, troubles, settings, took),
        distributions: distributions(&audit),
        timelines: vec![
            timeline("accepted", "Accepted", seconds, |one| one.0),
            timeline("delivered", "Delivered", seconds, |one| one.1),
        ],
        tables: vec![table(troubles)],
    };
    Report {
        kind: "delayed-jobs demo",
        settings: vec![
            Setting::duration("duration", settings.duration),
            Setting::count("nodes", usize::from(settings.nodes)),
            Setting::count("partitions", usize::from(settings.partitions)),
            Setting::duration("lease", settings.lease),
            Setting::count("producers", super::PRODUCERS),
            Setting::count("consumers", super::CONSUMERS),
            Setting::rate("rate", Some(settings.rate)),
            Setting::seed(settings.seed),
        ],
        interrupted: false,
        phases: vec![phase],
        notes: vec![
            "Redis, nodes, producers and consumers share this machine, nodes are killed and paused, and \
             half-way Redis is killed and its replica promoted: the lateness includes all of that."
                .to_owned(),
            "Duplicates are what at-least-once means: consumers die before they acknowledge. They \
             are told by the job's id."
                .to_owned(),
        ],
    }
}

fn verdict(audit: &Audit) -> Verdict {
    let Audit { accepted, delivered, cancelled, dead, .. } = audit;
    let mut balance = format!(
        "accepted {accepted} = delivered {delivered} + cancelled {cancelled} + dead {dead}"
    );
    if audit.lost > 0 {
        balance.push_str(&format!(" + lost {}", audit.lost));
    }
    balance.push_str(&format!("; {} duplicates", audit.duplicates));
    if audit.unsure > 0 {
        balance.push_str(&format!("; {} requests without an answer", audit.unsure));
    }
    Verdict {
        began: audit.accepted,
        balance,
        counts: vec![
            ("accepted", audit.accepted),
            ("delivered", audit.delivered),
            ("cancelled", audit.cancelled),
            ("moved", audit.moved),
            ("dead", audit.dead),
            ("failed", audit.failed),
            ("duplicates", audit.duplicates),
            ("unsure", audit.unsure),
        ],
        breaches: vec![
            ("early", audit.early),
            ("lost", audit.lost),
            ("after cancel", audit.after_cancel),
            ("misjudged", audit.misjudged),
            ("unknown", audit.unknown),
            ("refused", audit.refused),
            // A run in which nothing happens shows nothing.
            ("idle", u64::from(audit.delivered == 0)),
        ],
        findings: audit.findings.clone(),
    }
}

fn figures(
    audit: &Audit,
    troubles: &Troubles,
    settings: &DemoSettings,
    took: Duration,
) -> Vec<Figure> {
    let count = |key, label, value: u64| Figure::new(key, label, Unit::Count, value as f64);
    let kills = troubles.suffered.iter().map(|one| one.kills).sum();
    let pauses = troubles.suffered.iter().map(|one| one.pauses).sum();
    let rate = audit.accepted as f64 / settings.duration.as_secs_f64();
    vec![
        count("accepted", "accepted", audit.accepted).tile(),
        count("delivered", "delivered", audit.delivered).tile(),
        count("cancelled", "cancelled", audit.cancelled).tile(),
        count("moved", "moved", audit.moved),
        count("dead", "poison, dead in the end", audit.dead).tile(),
        count("failed", "given back by workers", audit.failed),
        count("duplicates", "delivered again", audit.duplicates).tile(),
        count("kills", "nodes killed", kills).tile(),
        count("pauses", "nodes paused", pauses).tile(),
        Figure::new("accepted", "accepted per second", Unit::PerSecond, rate),
        Figure::new("took", "whole run", Unit::Nanos, took.as_nanos() as f64),
    ]
}

fn distributions(audit: &Audit) -> Vec<Distribution> {
    let of = |key, label, about, pick: fn(&(u64, u64)) -> u64| {
        let mut late = histogram();
        for one in &audit.late_ms {
            late.saturating_record((pick(one) * 1_000_000).max(1));
        }
        Distribution { key, label, histogram: late, tile: Some(1), chart: "Lateness", about }
    };
    let about = "From a job's time to its hand-over by a node, and to its arrival at a consumer.";
    vec![
        of("fired_late", "handed over late", about, |one| one.0),
        of("arrived_late", "arrived late", about, |one| one.1),
    ]
}

fn timeline(
    key: &'static str,
    title: &'static str,
    seconds: &[(u64, u64)],
    pick: fn(&(u64, u64)) -> u64,
) -> Timeline {
    let each = seconds.windows(2).enumerate();
    let points =
        each.map(|(second, pair)| (second as f64 + 1.0, (pick(&pair[1]) - pick(&pair[0])) as f64));
    Timeline {
        key,
        title,
        about: "Jobs per second, all nodes together, while nodes come and go.",
        unit: Unit::PerSecond,
        points: points.collect(),
    }
}

fn table(troubles: &Troubles) -> Table {
    let rows = troubles.suffered.iter().enumerate().map(|(number, one)| {
        let counts = [one.kills, one.pauses, one.long_pauses].map(Cell::count);
        [vec![Cell::Text(format!("node {}", number + 1))], counts.to_vec()].concat()
    });
    Table {
        key: "nodes",
        title: "What was done to the nodes",
        head: vec![
            ("node", ""),
            ("kills", "killed"),
            ("pauses", "paused"),
            ("long_pauses", "of these beyond a lease"),
        ],
        rows: rows.collect(),
    }
}

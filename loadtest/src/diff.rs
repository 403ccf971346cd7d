//! Compares the JSON results of two runs and judges whether the new one is worse.
//!
//! Figures that say which way is better are judged, and so are the medians and 99th percentiles; what lies
//! beyond varies too much from run to run and is only shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::numbers::{nanos, rate};
use crate::report::json::FORMAT;
use crate::report::outputs::print;
use crate::report::terminal::grid;

/// What is read of a run's results.
#[derive(Deserialize)]
struct Results {
    build: Build,
    kind: String,
    verdict: String,
    settings: BTreeMap<String, Value>,
    notes: Vec<String>,
    phases: Vec<Phase>,
}

#[derive(Deserialize)]
struct Build {
    profile: String,
    compiler: String,
}

#[derive(Deserialize)]
struct Phase {
    name: String,
    figures: BTreeMap<String, Figure>,
    distributions: BTreeMap<String, Percentiles>,
}

#[derive(Deserialize)]
struct Figure {
    value: Option<f64>,
    better: Option<String>,
}

#[derive(Deserialize)]
struct Percentiles {
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    p99_9_ns: Option<f64>,
}

/// Settings that differ between any two runs and change nothing.
const IRRELEVANT: [&str; 1] = ["seed"];

/// Durations that differ by less are the same: a reading of the clock takes as long.
const SAME_NS: f64 = 30.0;

/// Prints the comparison; whether the new run is no worse.
pub(crate) fn diff(old: &Path, new: &Path, tolerance: f64) -> Result<bool, Failure> {
    let (old, new) = (read(old)?, read(new)?);
    if old.kind != new.kind {
        let text = format!("a {} cannot be compared with a {}", old.kind, new.kind);
        return Err(Failure::Options(text));
    }
    let rows = compare(&old, &new, tolerance);
    let mut text = String::new();
    let head = ["", "old", "new", "change", ""].map(str::to_owned);
    let cells = rows.iter().map(|row| row.cells.to_vec());
    let _ = writeln!(text, "{}", grid(head.to_vec(), cells.collect()));
    for note in notes(&old, &new) {
        let _ = writeln!(text, "note: {note}");
    }
    let verdict = verdict(&old, &new, &rows);
    let _ = writeln!(text, "verdict: {verdict}");
    print(&text);
    Ok(verdict == "NO WORSE")
}

fn read(path: &Path) -> Result<Results, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::file("read", path))?;
    parse(&text).map_err(|why| Failure::Workload(format!("{}: {why}", path.display())))
}

fn parse(text: &str) -> Result<Results, String> {
    let format = serde_json::from_str::<Value>(text).ok().and_then(|all| all["format"].as_u64());
    if format != Some(u64::from(FORMAT)) {
        return Err(format!("no results of this program in format {FORMAT}; run it with --json"));
    }
    serde_json::from_str::<Results>(text).map_err(|error| error.to_string())
}

/// One line of the comparison.
struct Row {
    cells: [String; 5],
    worse: bool,
}

fn compare(old: &Results, new: &Results, tolerance: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for now in &new.phases {
        let Some(then) = old.phases.iter().find(|then| then.name == now.name) else { continue };
        let mut add =
            |name: &str, better: Option<&str>, then: Option<f64>, now_value: Option<f64>| {
                let label = format!("{}: {name}", now.name);
                rows.extend(then.zip(now_value).map(|both| row(label, both, better, tolerance)));
            };
        for (name, figure) in &now.figures {
            let then = then.figures.get(name).and_then(|then| then.value);
            if let Some(better) = &figure.better {
                add(name, Some(better), then, figure.value);
            }
        }
        for (name, after) in &now.distributions {
            let Some(before) = then.distributions.get(name) else { continue };
            let less = Some("less");
            add(&format!("{name}_p50_ns"), less, before.p50_ns, after.p50_ns);
            add(&format!("{name}_p99_ns"), less, before.p99_ns, after.p99_ns);
            add(&format!("{name}_p99.9_ns"), None, before.p99_9_ns, after.p99_9_ns);
        }
    }
    rows
}

fn row(name: String, (then, now): (f64, f64), better: Option<&str>, tolerance: f64) -> Row {
    let is_time = name.ends_with("_ns");
    let change = if then == now { 0.0 } else { (now - then) / then };
    let gain = match better {
        Some("more") => change,
        Some(_) => -change,
        None => 0.0,
    };
    let same = gain.abs() <= tolerance || (is_time && (now - then).abs() < SAME_NS);
    let word = match (better, same) {
        (None, _) => "",
        (_, true) => "same",
        (_, false) if gain > 0.0 => "better",
        (_, false) => "WORSE",
    };
    let show = |value: f64| if is_time { nanos(value as u64) } else { rate(value) };
    let percent = format!("{:+.1} %", change * 100.0);
    let percent = if change.is_finite() { percent } else { "from 0".to_owned() };
    let cells = [name, show(then), show(now), percent, word.to_owned()];
    Row { worse: word == "WORSE", cells }
}

/// What a reader must know to judge the comparison.
fn notes(old: &Results, new: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    let builds = [
        ("profile", &old.build.profile, &new.build.profile),
        ("compiler", &old.build.compiler, &new.build.compiler),
    ];
    for (name, then, now) in builds.into_iter().filter(|(_, then, now)| then != now) {
        notes.push(format!("the builds differ: {name} was {then} and is {now}"));
    }
    for (name, now) in &new.settings {
        let then = old.settings.get(name).unwrap_or(&Value::Null);
        if then != now && !IRRELEVANT.contains(&name.as_str()) {
            notes.push(format!("the settings differ: {name} was {then} and is {now}"));
        }
    }
    for (name, run) in [("old", old), ("new", new)] {
        notes.extend(run.notes.iter().map(|note| format!("{name} run: {note}")));
    }
    notes
}

fn verdict(old: &Results, new: &Results, rows: &[Row]) -> &'static str {
    let is_empty = |run: &Results| run.verdict == "nothing was run";
    if new.verdict != "ok" && !is_empty(new) {
        "BREACH"
    } else if rows.is_empty() || is_empty(old) || is_empty(new) {
        "NOTHING TO COMPARE"
    } else if rows.iter().any(|row| row.worse) {
        "WORSE"
    } else {
        "NO WORSE"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results(pairs: f64, p99_ns: f64, verdict: &str) -> Results {
        let all = json!({
            "format": FORMAT, "kind": "load run", "verdict": verdict, "notes": [],
            "build": { "profile": "release", "compiler": "rustc 1.85.0" },
            "settings": { "shards": 2, "seed": pairs },
            "phases": [{
                "name": "paced",
                "figures": {
                    "pairs_per_second": { "value": pairs, "better": "more" },
                    "fired_per_second": { "value": pairs, "better": null },
                },
                "distributions": {
                    "lateness": { "p50_ns": 1000, "p99_ns": p99_ns, "p99_9_ns": 10.0 * p99_ns },
                    "empty": { "p50_ns": null, "p99_ns": null, "p99_9_ns": null },
                },
            }],
        });
        parse(&all.to_string()).unwrap()
    }

    fn judged(old: &Results, new: &Results) -> &'static str {
        verdict(old, new, &compare(old, new, 0.1))
    }

    #[test]
    fn each_way_to_be_worse_is_found() {
        let old = results(1000.0, 5000.0, "ok");
        assert_eq!(judged(&old, &results(950.0, 5400.0, "ok")), "NO WORSE");
        assert_eq!(judged(&old, &results(2000.0, 100.0, "ok")), "NO WORSE");
        assert_eq!(judged(&old, &results(880.0, 5000.0, "ok")), "WORSE");
        assert_eq!(judged(&old, &results(1000.0, 5600.0, "ok")), "WORSE");
        assert_eq!(judged(&old, &results(1000.0, 5000.0, "breach")), "BREACH");
        let empty = results(0.0, 0.0, "nothing was run");
        assert_eq!(judged(&old, &empty), "NOTHING TO COMPARE");
        assert_eq!(judged(&empty, &old), "NOTHING TO COMPARE");
        let mut other = results(1000.0, 5000.0, "ok");
        other.phases[0].name = "full speed".to_owned();
        assert_eq!(judged(&old, &other), "NOTHING TO COMPARE");
    }

    #[test]
    fn only_what_has_a_direction_is_judged_and_only_what_was_measured_is_shown() {
        let rows = compare(&results(1000.0, 5000.0, "ok"), &results(1.0, 5000.0, "ok"), 0.1);
        let names: Vec<&str> = rows.iter().map(|row| row.cells[0].as_str()).collect();
        let lateness =
            ["paced: lateness_p50_ns", "paced: lateness_p99_ns", "paced: lateness_p99.9_ns"];
        assert_eq!(names, [&["paced: pairs_per_second"][..], &lateness].concat());
        let short = row("x_ns".to_owned(), (80.0, 100.0), Some("less"), 0.1);
        assert!(!short.worse, "20 ns are within a reading of the clock");
    }

    #[test]
    fn other_settings_are_noted_and_other_files_refused() {
        let (old, mut new) = (results(1.0, 1.0, "ok"), results(2.0, 1.0, "ok"));
        assert!(notes(&old, &new).is_empty(), "the seed differs always");
        new.settings.insert("shards".to_owned(), json!(4));
        assert_eq!(notes(&old, &new), ["the settings differ: shards was 2 and is 4"]);
        (new.settings, new.build.profile) = (BTreeMap::new(), "debug".to_owned());
        assert_eq!(notes(&old, &new), ["the builds differ: profile was release and is debug"]);
        assert!(parse("{}").is_err() && parse("[1]").is_err() && parse("no").is_err());
    }
}

//! An engine's figures as an operator sees them: statistics through the `metrics` facade, read by Prometheus' own tool.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;
use tickwheel::{Builder, Drive, Expired, ManualClock, Timer};
use tickwheel_util::MetricsReporter;

/// An engine whose time is turned by hand: 100 timers, of which 70 fire 3 ms late and 10 are cancelled.
fn engine() -> Timer<u32> {
    let clock = ManualClock::new();
    let timer = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(clock.clone())
        .on_slow_handler(Duration::from_secs(1), |_| ())
        .build_with(|expired: Expired<u32>| assert_ne!(expired.payload, 13, "the unlucky one"))
        .expect("the settings are in range");
    let keys: Vec<_> = (0..100)
        .map(|id| {
            let delay = Duration::from_millis(if id < 70 { 10 } else { 1000 });
            timer.schedule(delay, id).expect("there is room")
        })
        .collect();
    assert!(keys[90..].iter().all(|key| timer.cancel(*key).is_won()));
    clock.advance(Duration::from_millis(13));
    while timer.turn().expect("it is driven by hand") > 0 {}
    timer
}

/// Reads a figure of the watched engine in a page in Prometheus' format.
fn figure(page: &str, name: &str) -> Option<f64> {
    let name = format!("{name}{{timer=\"requests\",shard=\"0\"}} ");
    page.lines()
        .find_map(|line| line.strip_prefix(&name))?
        .parse()
        .ok()
}

/// A recorder with buckets, and a report of `timer` in it.
fn reported(timer: &Timer<u32>, reports: usize) -> PrometheusHandle {
    let buckets = [0.001, 0.01, 0.1];
    let recorder = PrometheusBuilder::new()
        .set_buckets(&buckets)
        .expect("there are buckets");
    let recorder = recorder.build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let mut reporter = MetricsReporter::new("requests");
        for _ in 0..reports {
            reporter.report(&timer.stats().shards);
        }
    });
    recorder.handle()
}

#[test]
fn a_report_has_every_figure_and_histograms_are_not_counted_twice() {
    let page = reported(&engine(), 3).render();
    for (name, value) in [
        ("tickwheel_timers_scheduled_total", 100.0),
        ("tickwheel_timers_fired_total", 70.0),
        ("tickwheel_timers_cancelled_total", 10.0),
        ("tickwheel_timers_returned_total", 0.0),
        ("tickwheel_timers_pending", 20.0),
        ("tickwheel_handler_panics_total", 1.0),
        ("tickwheel_executor_refusals_total", 0.0),
        ("tickwheel_worker_failed", 0.0),
        ("tickwheel_lag_seconds", 0.0),
        ("tickwheel_lateness_seconds_count", 70.0),
        ("tickwheel_handler_seconds_count", 70.0),
    ] {
        assert_eq!(figure(&page, name), Some(value), "{name} of\n{page}");
    }
    for (bound, count) in [("0.001", 0), ("0.01", 70), ("+Inf", 70)] {
        let labels = format!("timer=\"requests\",shard=\"0\",le=\"{bound}\"");
        let line = format!("tickwheel_lateness_seconds_bucket{{{labels}}} {count}\n");
        assert!(page.contains(&line), "{line} of\n{page}");
    }
    for line in page.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).expect("a name");
        assert!(
            page.contains(&format!("# HELP {name} ")),
            "{name} is not described"
        );
    }
}

#[test]
fn reports_come_by_themselves_until_they_are_cancelled() {
    let (watched, clock) = (engine(), ManualClock::new());
    let on = Builder::new()
        .shards(1)
        .drive(Drive::Manual)
        .clock(clock.clone())
        .build()
        .unwrap();
    let recorder = PrometheusBuilder::new().build_recorder();
    let cancelled = || {
        on.turn().expect("it is driven by hand");
        figure(
            &recorder.handle().render(),
            "tickwheel_timers_cancelled_total",
        )
    };
    let second = Duration::from_secs(1);
    metrics::with_local_recorder(&recorder, || {
        let reporter = MetricsReporter::new("requests");
        let key = reporter
            .report_every_on(&on, 10 * second, &watched)
            .expect("there is room");
        assert_eq!(cancelled(), Some(10.0), "at once");
        let cancel = || {
            let key = watched.schedule(second, 0).expect("there is room");
            assert!(watched.cancel(key).is_won());
        };
        cancel();
        clock.advance(9 * second);
        assert_eq!(cancelled(), Some(10.0));
        clock.advance(second);
        assert_eq!(cancelled(), Some(11.0));
        assert!(on.cancel(key).is_won());
        cancel();
        clock.advance(60 * second);
        assert_eq!(cancelled(), Some(11.0));
        // It does not keep the engine that it watches.
        let reporter = MetricsReporter::new("requests");
        reporter
            .report_every_on(&on, second, &watched)
            .expect("there is room");
        assert_eq!(cancelled(), Some(12.0));
        let weak = watched.downgrade();
        drop(watched);
        assert!(weak.upgrade().is_none());
        clock.advance(second);
        assert_eq!((on.turn(), on.stats().panics), (Ok(1), 0));
        assert_eq!(on.pending(), 0, "nor does it report for ever");
    });
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_figures_that_exist() {
    let page = reported(&engine(), 1).render();
    let dashboard = include_str!("../../docs/dashboard.json");
    assert!(serde_json::from_str::<serde_json::Value>(dashboard).is_ok());
    for (file, least) in [(dashboard, 8), (include_str!("../../docs/alerts.yml"), 6)] {
        let is_no_name = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        let words = file.split(is_no_name);
        let names: Vec<&str> = words
            .filter(|word| word.starts_with("tickwheel_"))
            .collect();
        assert!(names.len() >= least, "{names:?}");
        for name in names {
            let ends = ["_bucket", "_sum", "_count"];
            let family = ends
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(name);
            assert!(
                page.contains(&format!("# TYPE {family} ")),
                "nothing is called {name}"
            );
        }
    }
}

/// The dashboards: of an engine, and of delayed jobs.
const BOARDS: [&str; 2] = [
    include_str!("../../docs/dashboard.json"),
    include_str!("../../delayed-jobs/operations/dashboard.json"),
];

/// The panels of a dashboard.
fn panels(board: &str) -> Vec<Value> {
    let board: Value = serde_json::from_str(board).expect("it is JSON");
    board["panels"].as_array().expect("it has panels").clone()
}

/// The queries of a panel.
fn queries(panel: &Value) -> impl Iterator<Item = &str> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.filter_map(|target| target["expr"].as_str())
}

#[test]
fn a_dashboard_begins_with_single_numbers_and_says_what_each_panel_shows() {
    for board in BOARDS {
        let panels = panels(board);
        let (mut width, mut places) = (0, Vec::new());
        for panel in &panels {
            let title = &panel["title"];
            let description = panel["description"].as_str().unwrap_or_default();
            assert!(description.len() > 20, "{title} is not described");
            let place = |name: &str| panel["gridPos"][name].as_u64().expect("a place");
            let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
            if panel["type"] == "stat" {
                assert_eq!((x, y), (width, 0), "{title}");
                width += w;
                let steps = &panel["fieldConfig"]["defaults"]["thresholds"]["steps"];
                assert_eq!(steps[0]["color"], "green", "{title}");
            } else {
                assert!(y > 0, "{title} is in the first row");
            }
            for (x2, y2, w2, h2) in &places {
                let apart = x + w <= *x2 || x2 + w2 <= x || y + h <= *y2 || y2 + h2 <= y;
                assert!(apart, "{title} covers another one");
            }
            places.push((x, y, w, h));
            // Of the engine that was chosen.
            for query in queries(panel).filter(|query| query.contains("tickwheel_")) {
                assert!(query.contains("{timer=~\"$timer\"}"), "{title}: {query}");
            }
        }
        assert_eq!(width, 24, "the first row is full");
        let judged = panels.iter().filter(|panel| {
            let steps = &panel["fieldConfig"]["defaults"]["thresholds"]["steps"];
            panel["type"] == "stat" && steps.as_array().is_some_and(|steps| steps.len() > 1)
        });
        assert!(judged.count() >= 3, "too few numbers say when they are bad");
    }
}

#[test]
#[ignore = "needs promtool: scripts/prometheus.sh brings one and runs this"]
fn prometheus_reads_the_queries_of_the_dashboards() -> Result<(), Box<dyn std::error::Error>> {
    let all: Vec<Value> = BOARDS.into_iter().flat_map(panels).collect();
    let rules = all.iter().flat_map(queries).enumerate();
    let rules = rules.map(|(number, query)| {
        let query = query
            .replace("$__rate_interval", "1m")
            .replace("$timer", ".+");
        json!({ "record": format!("query_{number}"), "expr": query })
    });
    let rules: Vec<Value> = rules.collect();
    assert!(rules.len() > 40, "{} queries", rules.len());
    // JSON is YAML, too.
    let file = tempfile::NamedTempFile::new()?;
    let groups = json!({ "groups": [{ "name": "dashboards", "rules": rules }] });
    std::fs::write(&file, groups.to_string())?;
    let program = std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let said = Command::new(program)
        .args(["check", "rules"])
        .arg(file.path())
        .output()?;
    let complaints = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{complaints}");
    Ok(())
}

#[test]
#[ignore = "needs promtool: scripts/prometheus.sh brings one and runs this"]
fn prometheus_reads_a_report() -> Result<(), Box<dyn std::error::Error>> {
    let page = tempfile::NamedTempFile::new()?;
    std::fs::write(&page, reported(&engine(), 1).render())?;
    let program = std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let mut promtool = Command::new(program);
    let said = promtool
        .args(["check", "metrics"])
        .stdin(page.reopen()?)
        .output()?;
    let complaints = String::from_utf8_lossy(&said.stderr);
    assert!(
        said.status.success() && complaints.is_empty(),
        "{complaints}"
    );
    Ok(())
}

//! An engine's figures as an operator sees them: statistics through the `metrics` facade, read by Prometheus' own tool.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
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
            timer.schedule_key(delay, id).expect("there is room")
        })
        .collect();
    assert!(keys[90..].iter().all(|key| timer.cancel(*key).won()));
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
            .report_every(10 * second, &watched, &on)
            .expect("there is room");
        assert_eq!(cancelled(), Some(10.0), "at once");
        let cancel = || {
            let key = watched.schedule_key(second, 0).expect("there is room");
            assert!(watched.cancel(key).won());
        };
        cancel();
        clock.advance(9 * second);
        assert_eq!(cancelled(), Some(10.0));
        clock.advance(second);
        assert_eq!(cancelled(), Some(11.0));
        assert!(on.cancel(key).won());
        cancel();
        clock.advance(60 * second);
        assert_eq!(cancelled(), Some(11.0));
        // It does not keep the engine that it watches.
        let reporter = MetricsReporter::new("requests");
        reporter
            .report_every(second, &watched, &on)
            .expect("there is room");
        assert_eq!(cancelled(), Some(12.0));
        let weak = watched.downgrade();
        drop(watched);
        assert!(weak.upgrade().is_none());
        clock.advance(second);
        assert_eq!((on.turn(), on.stats().panics()), (Ok(1), 0));
        assert_eq!(on.pending(), 0, "nor does it report for ever");
    });
}

#[test]
fn the_dashboard_asks_for_figures_that_exist() {
    let page = reported(&engine(), 1).render();
    let dashboard = include_str!("../../docs/dashboard.json");
    assert!(serde_json::from_str::<serde_json::Value>(dashboard).is_ok());
    let is_no_name = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let words = dashboard.split(is_no_name);
    let names: Vec<&str> = words
        .filter(|word| word.starts_with("tickwheel_"))
        .collect();
    assert!(names.len() >= 8, "{names:?}");
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

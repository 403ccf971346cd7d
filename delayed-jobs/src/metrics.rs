//! What a node counts, as Prometheus reads it.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::job::Accepted;
use crate::store::{Failed, Overview, Past, QueueView, Taken};
use crate::units::lock;

/// Upper ends of the buckets of lateness, in seconds.
const LATENESS: [f64; 12] = [
    0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// A number that goes up and down.
type Amount = Gauge<f64, AtomicU64>;

/// Names with values.
type Labels = Vec<(&'static str, String)>;

/// The counters of one node.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) accepted: Counter,
    pub(crate) repeated: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) rescheduled: Counter,
    pub(crate) fired: Counter,
    pub(crate) early: Counter,
    pub(crate) delivered: Counter,
    pub(crate) acknowledged: Counter,
    pub(crate) failed: Counter,
    pub(crate) died: Counter,
    pub(crate) redelivered: Counter,
    pub(crate) leases_lost: Counter,
    pub(crate) fenced: Counter,
    pub(crate) orphans: Counter,
    pub(crate) redis_errors: Counter,
    pub(crate) refused: Counter,
    pub(crate) held: Gauge,
    pub(crate) armed: Gauge,
    pub(crate) redis_up: Gauge<u64, AtomicU64>,
    pub(crate) redis_full: Gauge<u64, AtomicU64>,
    pub(crate) dead_forgotten: Counter,
    /// What was done since the last beat.
    pub(crate) since_beat: Mutex<Past>,
    lateness: Histogram,
    http: Family<Labels, Histogram, fn() -> Histogram>,
}

/// Adds a metric to the registry.
fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut all = Registry::with_prefix("delayed_jobs");
        let mut counter = |name, help| add(&mut all, name, help, Counter::default());
        Self {
            accepted: counter("accepted", "Jobs accepted"),
            repeated: counter("repeated", "Requests whose idempotency key was known"),
            cancelled: counter(
                "cancelled",
                "Requests that found a job cancelled or cancelled it",
            ),
            rescheduled: counter("rescheduled", "Deadlines moved"),
            fired: counter("fired", "Jobs handed to the consumers"),
            early: counter("early_attempts", "Times Redis said that nothing is due yet"),
            delivered: counter("delivered", "Jobs given to consumers over HTTP"),
            acknowledged: counter("acknowledged", "Jobs ended by consumers over HTTP"),
            failed: counter("failed", "Attempts that failed over HTTP"),
            died: counter("died", "Jobs whose attempts were found used up here"),
            redelivered: counter("redelivered", "Jobs given to consumers over HTTP again"),
            leases_lost: counter("leases_lost", "Leases that ran out or were taken by others"),
            fenced: counter(
                "fenced",
                "Times Redis refused to fire for a lease that was lost",
            ),
            orphans: counter("orphans", "Entries whose job's record was gone"),
            redis_errors: counter("redis_errors", "Requests that Redis did not answer"),
            refused: counter("refused", "Requests refused as wrong"),
            dead_forgotten: counter(
                "dead_forgotten",
                "Dead jobs forgotten as dead_retention and max_dead say",
            ),
            held: add(&mut all, "partitions", "Partitions held", Gauge::default()),
            armed: add(&mut all, "armed", "Moments in the timer", Gauge::default()),
            redis_up: add(&mut all, "redis_up", "1 if Redis answers", Gauge::default()),
            redis_full: add(
                &mut all,
                "redis_full",
                "1 if Redis had no room for new jobs at the last beat",
                Gauge::default(),
            ),
            since_beat: Mutex::default(),
            lateness: add(
                &mut all,
                "lateness_seconds",
                "From a job's time to its hand-over, on the clock of Redis",
                Histogram::new(LATENESS),
            ),
            http: add(
                &mut all,
                "http_seconds",
                "From a request over HTTP to its answer, waiting for deliveries included",
                Family::new_with_constructor(|| Histogram::new(LATENESS)),
            ),
            registry: all,
        }
    }

    /// A request for a new job was carried out.
    pub(crate) fn created(&self, accepted: &Accepted) {
        if accepted.repeated {
            &self.repeated
        } else {
            &self.accepted
        }
        .inc();
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &Method, route: String, status: u16, took: Duration) {
        // A client may invent any number of methods, and each label is kept.
        let known = [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ];
        let method = match known.contains(method) {
            true => method.to_string(),
            false => "other".to_owned(),
        };
        let labels = vec![
            ("method", method),
            ("route", route),
            ("status", status.to_string()),
        ];
        self.http.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Jobs were handed over, so many milliseconds after their time.
    pub(crate) fn fired(&self, lateness_ms: &[u64]) {
        self.fired.inc_by(lateness_ms.len() as u64);
        for late in lateness_ms {
            self.lateness.observe(*late as f64 / 1000.0);
        }
        lock(&self.since_beat).add(&Past {
            fired: lateness_ms.len() as u64,
            failed: 0,
            late_ms: lateness_ms.iter().copied().max().unwrap_or(0),
        });
    }

    /// Jobs were given to a consumer.
    pub(crate) fn arrived(&self, arrived: &Taken) {
        self.delivered.inc_by(arrived.deliveries.len() as u64);
        let again = arrived
            .deliveries
            .iter()
            .filter(|one| one.attempt > 1)
            .count();
        self.redelivered.inc_by(again as u64);
        self.orphans.inc_by(arrived.orphans);
        self.died.inc_by(arrived.died);
    }

    /// Attempts failed.
    pub(crate) fn failed(&self, failed: &[Failed]) {
        let count = |wanted: fn(&Failed) -> bool| failed.iter().filter(|one| wanted(one)).count();
        let failures = count(|one| *one != Failed::Stale) as u64;
        self.failed.inc_by(failures);
        lock(&self.since_beat).failed += failures;
        self.died.inc_by(count(|one| *one == Failed::Dead) as u64);
    }

    /// Returns the exposition text: of this node, and of the namespace if it could be asked.
    pub(crate) fn text(&self, overview: Option<&Overview>) -> String {
        let mut text = String::new();
        // Writing into a string does not fail.
        let _ = encode_registry(&mut text, &self.registry);
        if let Some(now) = overview {
            let _ = encode_registry(&mut text, &of_namespace(now));
        }
        let _ = encode_eof(&mut text);
        text
    }
}

/// Every node says the same of the namespace: take the maximum over nodes, not the sum.
fn of_namespace(now: &Overview) -> Registry {
    let mut registry = Registry::with_prefix("delayed_jobs");
    let mut gauge = |name, help, value: u64, unit: f64| {
        let gauge = add(&mut registry, name, help, Amount::default());
        gauge.set(value as f64 / unit);
    };
    gauge("pending", "Jobs that wait for their time", now.pending, 1.0);
    gauge(
        "lag_seconds",
        "How long the oldest overdue job has been due",
        now.lag_ms,
        1000.0,
    );
    gauge(
        "waiting",
        "Jobs that have fired and that no consumer has taken",
        now.waiting,
        1.0,
    );
    gauge(
        "waiting_age_seconds",
        "Since the first of them fired",
        now.waiting_ms,
        1000.0,
    );
    gauge("running", "Jobs that consumers hold", now.running, 1.0);
    gauge(
        "running_age_seconds",
        "Since the one of them whose hold ends first was taken",
        now.running_ms,
        1000.0,
    );
    gauge("dead", "Jobs whose attempts are used up", now.dead, 1.0);
    let free = now
        .partitions
        .iter()
        .filter(|one| one.node.is_empty())
        .count() as u64;
    gauge(
        "partitions_free",
        "Partitions that no node holds",
        free,
        1.0,
    );
    gauge(
        "data_lost_timestamp_seconds",
        "When Redis was found without what it had kept; 0 if it never was",
        now.lost_ms.unwrap_or(0),
        1000.0,
    );
    let mut of_queues = |name, help, value: fn(&QueueView) -> f64| {
        let family = add(
            &mut registry,
            name,
            help,
            Family::<Labels, Amount>::default(),
        );
        for one in &now.queues {
            let labels = vec![("queue", one.queue.to_string())];
            family.get_or_create(&labels).set(value(one));
        }
    };
    of_queues("queue_pending", "Jobs that wait for their time", |one| {
        one.pending as f64
    });
    of_queues(
        "queue_waiting",
        "Jobs that have fired and that no consumer has taken",
        |one| one.waiting as f64,
    );
    of_queues(
        "queue_waiting_age_seconds",
        "Since the first of them fired",
        |one| one.waiting_ms as f64 / 1000.0,
    );
    of_queues("queue_running", "Jobs that consumers hold", |one| {
        one.running as f64
    });
    of_queues("queue_paused", "1 if the queue hands nothing out", |one| {
        f64::from(one.paused)
    });
    registry
}

/// Turns an exposition of OpenMetrics into the older format: a counter's help and type are of the name with `_total`,
/// and there is no mark at the end.
pub(crate) fn plain(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("# TYPE {name} counter\n"));
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", kind @ ("HELP" | "TYPE"), name, rest] if is_counter(name) => {
                plain.push_str(&format!("# {kind} {name}_total {rest}"));
            }
            _ => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_names_counters_with_total_and_has_no_end() {
        let metrics = Metrics::new();
        metrics.fired.inc_by(3);
        let (open, plain) = (metrics.text(None), plain(&metrics.text(None)));
        assert!(open.contains("# TYPE delayed_jobs_fired counter\ndelayed_jobs_fired_total 3\n"));
        assert!(
            plain.contains("# TYPE delayed_jobs_fired_total counter\ndelayed_jobs_fired_total 3\n")
        );
        assert!(plain.contains("# HELP delayed_jobs_fired_total Jobs"));
        assert!(plain.contains("# TYPE delayed_jobs_armed gauge\n") && !plain.contains("EOF"));
    }
}

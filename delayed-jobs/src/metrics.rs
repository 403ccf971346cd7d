//! What a node counts, as Prometheus reads it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::Method;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::inbox::Arrived;
use crate::store::{Failed, Overview};

/// Upper ends of the buckets of lateness, in seconds.
const LATENESS: [f64; 12] =
    [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

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
    lateness: Histogram,
    http: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Metrics {
    pub(crate) fn new() -> Arc<Self> {
        let metrics = Self {
            registry: Registry::with_prefix("delayed_jobs"),
            accepted: Counter::default(),
            repeated: Counter::default(),
            cancelled: Counter::default(),
            rescheduled: Counter::default(),
            fired: Counter::default(),
            early: Counter::default(),
            delivered: Counter::default(),
            acknowledged: Counter::default(),
            failed: Counter::default(),
            died: Counter::default(),
            redelivered: Counter::default(),
            leases_lost: Counter::default(),
            fenced: Counter::default(),
            orphans: Counter::default(),
            redis_errors: Counter::default(),
            refused: Counter::default(),
            held: Gauge::default(),
            armed: Gauge::default(),
            redis_up: Gauge::default(),
            lateness: Histogram::new(LATENESS),
            http: Family::new_with_constructor(|| Histogram::new(LATENESS)),
        };
        Arc::new(metrics.registered())
    }

    fn registered(mut self) -> Self {
        let counters = [
            ("accepted", "Jobs accepted", &self.accepted),
            ("repeated", "Requests whose idempotency key was known", &self.repeated),
            ("cancelled", "Requests that found a job cancelled or cancelled it", &self.cancelled),
            ("rescheduled", "Deadlines moved", &self.rescheduled),
            ("fired", "Jobs handed to the consumers", &self.fired),
            ("delivered", "Jobs given to consumers over HTTP", &self.delivered),
            ("acknowledged", "Jobs ended by consumers over HTTP", &self.acknowledged),
            ("failed", "Attempts that failed over HTTP", &self.failed),
            ("died", "Jobs whose attempts were found used up here", &self.died),
            ("redelivered", "Jobs given to consumers over HTTP again", &self.redelivered),
            ("leases_lost", "Leases that ran out or were taken by others", &self.leases_lost),
            ("early_attempts", "Times Redis said that nothing is due yet", &self.early),
            ("fenced", "Times Redis refused to fire for a lease that was lost", &self.fenced),
            ("orphans", "Entries whose job's record was gone", &self.orphans),
            ("redis_errors", "Requests that Redis did not answer", &self.redis_errors),
            ("refused", "Requests refused as wrong", &self.refused),
        ];
        for (name, help, counter) in counters {
            self.registry.register(name, help, counter.clone());
        }
        self.registry.register("partitions", "Partitions held", self.held.clone());
        self.registry.register("armed", "Moments in the timer", self.armed.clone());
        self.registry.register("redis_up", "1 if Redis answers", self.redis_up.clone());
        let help = "From a job's time to its hand-over, on the clock of Redis";
        self.registry.register("lateness_seconds", help, self.lateness.clone());
        let help = "From a request over HTTP to its answer, waiting for deliveries included";
        self.registry.register("http_seconds", help, self.http.clone());
        self
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &Method, route: String, status: u16, took: Duration) {
        let labels =
            vec![("method", method.to_string()), ("route", route), ("status", status.to_string())];
        self.http.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Jobs were handed over, so many milliseconds after their time.
    pub(crate) fn fired(&self, lateness_ms: &[u64]) {
        self.fired.inc_by(lateness_ms.len() as u64);
        for late in lateness_ms {
            self.lateness.observe(*late as f64 / 1000.0);
        }
    }

    /// Jobs were given to a consumer.
    pub(crate) fn arrived(&self, arrived: &Arrived) {
        self.delivered.inc_by(arrived.deliveries.len() as u64);
        let again = arrived.deliveries.iter().filter(|one| one.attempt > 1).count();
        self.redelivered.inc_by(again as u64);
        self.orphans.inc_by(arrived.orphans);
        self.died.inc_by(arrived.died);
    }

    /// Attempts failed.
    pub(crate) fn failed(&self, failed: &[Failed]) {
        let count = |wanted: fn(&Failed) -> bool| failed.iter().filter(|one| wanted(one)).count();
        self.failed.inc_by(count(|one| *one != Failed::Stale) as u64);
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
    let seconds = |ms: u64| ms as f64 / 1000.0;
    for (name, help, value) in [
        ("pending", "Jobs that wait for their time", now.pending as f64),
        ("lag_seconds", "How long the oldest overdue job has been due", seconds(now.lag_ms)),
        ("unread", "Fired jobs that no consumer has taken", now.unread as f64),
        ("unread_age_seconds", "Since the first of them fired", seconds(now.unread_ms)),
        ("unacknowledged", "Fired jobs that have not ended", now.unacknowledged as f64),
        (
            "unacknowledged_age_seconds",
            "Since the oldest of them fired",
            seconds(now.unacknowledged_ms),
        ),
        ("dead", "Jobs whose attempts are used up", now.dead as f64),
        (
            "partitions_free",
            "Partitions that no node holds",
            now.partitions.iter().filter(|one| one.node.is_empty()).count() as f64,
        ),
    ] {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    }
    registry
}

//! Too many engines in one process: one warning, through `log`.
//!
//! A program of its own with a single test, because logger and count belong to the process.

#![cfg(not(feature = "tracing"))] // there are no log records then

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::Mutex;
use tickwheel::{Builder, Drive, Expired, Timer};

/// Keeps every warning.
struct Warnings(Mutex<Vec<String>>);

impl Log for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
            // A logger that flushes by a timer of its own, made when there is something to flush.
            std::mem::forget(engine());
        }
    }

    fn flush(&self) {}
}

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

fn engine() -> Timer<u64> {
    let builder = Builder::new().shards(1).drive(Drive::Manual);
    builder.build_with(|_: Expired<u64>| ()).unwrap()
}

fn warnings() -> usize {
    WARNINGS
        .0
        .lock()
        .unwrap()
        .iter()
        .filter(|text| text.contains("timer engines"))
        .count()
}

#[test]
fn the_65th_live_engine_warns_once_per_process() {
    log::set_logger(&WARNINGS).unwrap();
    log::set_max_level(LevelFilter::Warn);

    // Engines that have gone do not count.
    for _ in 0..100 {
        drop(engine());
    }
    let mut engines: Vec<_> = (0..64).map(|_| engine()).collect();
    assert_eq!(warnings(), 0);
    engines.push(engine());
    assert_eq!(warnings(), 1);
    let text = WARNINGS.0.lock().unwrap()[0].clone();
    assert!(
        text.contains("65") && text.contains("share it"),
        "names the number and the cure: {text}"
    );
    engines.push(engine());
    assert_eq!(warnings(), 1);
    // Below the mark and above it again: it has been said.
    engines.truncate(60);
    engines.extend((0..10).map(|_| engine()));
    assert_eq!(warnings(), 1, "once per process");
    drop(engines);
}

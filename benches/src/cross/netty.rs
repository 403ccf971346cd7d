//! Netty's `HashedWheelTimer`, in a Java virtual machine of its own. It takes part where that is installed
//! (Debian: `default-jdk-headless` and `libnetty-java`).

use crate::figure::Scale;
use crate::measure::{Metrics, parse};
use crate::peer::NETTY_JAR;
use std::process::Command;
use std::time::Duration;

/// The same load, written in Java.
const SOURCE: &str = include_str!("Netty.java");

/// As [`throughput::cross`](super::throughput::cross), after three seconds of warm-up for the compilers.
///
/// # Panics
///
/// If Java cannot be run: this is a process of its own, and who started it tells what it says.
pub(super) fn cross(producers: usize, in_flight: usize, scale: Scale) -> Metrics {
    let folder = tempfile::tempdir().expect("a place for the source");
    let source = folder.path().join("Netty.java");
    std::fs::write(&source, SOURCE).expect("the source can be written");
    let watch = scale.watch(Duration::from_millis(1200));
    let numbers = [producers, in_flight, watch.as_millis() as usize, scale.steps(400_000)];
    let output = Command::new("java")
        .args(["-cp", NETTY_JAR])
        .arg(source)
        .args(numbers.map(|number| number.to_string()))
        .output()
        .expect("java can be started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "java has failed: {}", told.lines().last().unwrap_or(""));
    let names = ["M pairs/s", "CPU ns/pair", "p50 ns", "p99 ns", "p99.9 ns"];
    let metrics = parse(&String::from_utf8_lossy(&output.stdout));
    let value = |name| metrics.iter().find(|(told, _)| told == name).map(|(_, value)| *value);
    names.into_iter().filter_map(|name| Some((name, value(name)?))).collect()
}

//! Netty's `HashedWheelTimer`, in a Java virtual machine of its own. It takes part where that is installed
//! (Debian: `default-jdk-headless` and `libnetty-java`).

use crate::figure::Scale;
use crate::measure::{Metrics, parse};
use crate::peer::NETTY_JAR;
use crate::process::output;
use std::process::Command;
use std::time::Duration;

/// The same load, written in Java.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cross/Netty.java");

/// Does the work of [`throughput::cross`](super::throughput::cross), after three seconds of warm-up for the compilers.
///
/// # Panics
///
/// If Java cannot be run: this is a process of its own, whose parent tells what it says.
pub(super) fn cross(producers: usize, in_flight: usize, scale: Scale) -> Metrics {
    let watch = scale.watch(Duration::from_millis(1200));
    let numbers = [producers, in_flight, watch.as_millis() as usize, scale.steps(400_000)];
    let mut java = Command::new("java");
    java.args(["-cp", NETTY_JAR]).arg(SOURCE);
    java.args(numbers.map(|number| number.to_string()));
    let metrics = parse(&output(&mut java).expect("java runs").stdout);
    let name = |(name, value): (String, f64)| (&*name.leak(), value);
    metrics.into_iter().map(name).collect()
}

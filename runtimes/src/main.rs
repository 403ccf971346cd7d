//! `LocalSleeps` beside each runtime's own timer: a sleep that is made, polled and dropped, one that fires, and bytes.
//!
//! ```sh
//! cargo run --release --manifest-path runtimes/Cargo.toml -- --rounds 12
//! ```
//!
//! Each measurement runs in a process of its own. The two timers of a runtime take turns in random order, until the
//! ratios have narrow intervals or the limit of rounds is reached.

#[cfg(target_os = "linux")]
mod figures;

#[cfg(target_os = "linux")]
fn main() -> Result<(), tickwheel_benches::process::Failure> {
    figures::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("three of the runtimes are Linux only");
}

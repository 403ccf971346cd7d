//! `LocalSleeps` beside each runtime's own timer: a sleep that is made, polled and dropped, one that fires, and bytes.
//!
//! ```sh
//! cargo run --release --manifest-path runtimes/Cargo.toml -- --rounds 5
//! ```
//!
//! Each measurement runs in a process of its own, and the two timers of a runtime take turns.

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

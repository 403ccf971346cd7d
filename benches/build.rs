//! Says which compiler it is.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .map(|output| output.stdout);
    let version = String::from_utf8(version.unwrap_or_default()).unwrap_or_default();
    println!("cargo::rustc-env=TICKWHEEL_RUSTC={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}

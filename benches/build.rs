//! Declares the cfg under which tokio offers its alternative timer; see `peer.rs`.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tokio_unstable)");
    println!("cargo::rerun-if-changed=build.rs");
}

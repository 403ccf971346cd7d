//! Names the shared library for the dynamic linker: `libtickwheel.so.1` until the next incompatible version. A candidate
//! for a release has its whole version in the name, because the next one may differ.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if linux {
        let of = |part: &str| std::env::var(format!("CARGO_PKG_VERSION{part}")).unwrap_or_default();
        let is_candidate = !of("_PRE").is_empty();
        let version = of(if is_candidate { "" } else { "_MAJOR" });
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtickwheel.so.{version}");
    }
}

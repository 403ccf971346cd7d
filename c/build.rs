//! Names the shared library for the dynamic linker: `libtickwheel.so.0.2` until the next incompatible version.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if linux {
        let [major, minor] = ["MAJOR", "MINOR"]
            .map(|part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).unwrap_or_default());
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtickwheel.so.{major}.{minor}");
    }
}

//! What is left without the default features: it builds, without the operating system's crates.

use std::process::{Command, Output};

/// Runs cargo on the library alone.
fn cargo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .args(["-p", "tickwheel", "--no-default-features"])
        .output()
        .expect("cargo runs these tests, so it is there")
}

/// The library's dependencies, one name a line.
fn dependencies(features: &str) -> String {
    let tree = cargo(&[
        "tree",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--features",
        features,
    ]);
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    String::from_utf8(tree.stdout).expect("names are ASCII")
}

#[test]
fn the_local_timers_build_without_the_rest() {
    for features in ["", "std", "tracing"] {
        let checked = cargo(&["check", "--lib", "--features", features]);
        let told = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{features:?}: {told}");
    }
}

#[test]
fn the_local_timers_need_no_crate_of_the_operating_system() {
    let named = |tree: &str, name: &str| tree.lines().any(|line| line.starts_with(name));
    for features in ["", "std"] {
        let tree = dependencies(features);
        assert!(named(&tree, "tickwheel "), "this is not the tree: {tree}");
        for name in ["crossbeam", "mio ", "core_affinity ", "libc ", "loom "] {
            assert!(
                !named(&tree, name),
                "{name} is needed for {features:?}: {tree}"
            );
        }
    }
    assert_eq!(
        dependencies("").lines().count(),
        1,
        "without features there is no dependency at all"
    );
    // With the others the same look finds them.
    assert!(named(&dependencies("threads"), "core_affinity "));
    // An engine parks by itself.
    assert!(!named(&dependencies("threads,futures"), "mio "));
    assert!(named(&dependencies("mio"), "mio "));
}

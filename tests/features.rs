//! What the core needs, and what the features add: the timers of one thread build without an operating system.

use std::process::{Command, Output};

/// Runs cargo on one of the library's crates, without default features.
fn cargo(package: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .args(["-p", package, "--no-default-features"])
        .output()
        .expect("cargo runs these tests, so it is there")
}

/// A crate's dependencies, one name a line.
fn dependencies(package: &str, features: &str) -> String {
    let tree = ["tree", "-e", "normal", "--prefix", "none", "--features"];
    let tree = cargo(package, &[&tree[..], &[features]].concat());
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    String::from_utf8(tree.stdout).expect("names are ASCII")
}

#[test]
fn the_core_builds_with_and_without_its_features() {
    for features in ["", "std", "tracing"] {
        let checked = cargo(
            "tickwheel-core",
            &["check", "--lib", "--features", features],
        );
        let told = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{features:?}: {told}");
    }
}

#[test]
fn the_core_needs_no_crate_of_threads() {
    let named = |tree: &str, name: &str| tree.lines().any(|line| line.starts_with(name));
    for features in ["", "std", "tracing"] {
        let tree = dependencies("tickwheel-core", features);
        assert!(
            named(&tree, "tickwheel-core "),
            "this is not the tree: {tree}"
        );
        for name in ["crossbeam", "mio ", "core_affinity ", "loom "] {
            assert!(
                !named(&tree, name),
                "{name} is needed for {features:?}: {tree}"
            );
        }
    }
    assert_eq!(
        dependencies("tickwheel-core", "").lines().count(),
        1,
        "without features there is no dependency at all"
    );
    // In the library the same look finds them.
    assert!(named(&dependencies("tickwheel", ""), "core_affinity "));
    // An engine parks by itself.
    assert!(!named(&dependencies("tickwheel", "futures"), "mio "));
    assert!(named(&dependencies("tickwheel", "mio"), "mio "));
}

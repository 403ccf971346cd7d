//! `THIRD-PARTY.txt` has the licence of each crate that the libraries contain; `make install` puts it beside them.
//! `TICKWHEEL_WRITE_LICENCES=1 cargo test -p tickwheel-c --test licences` writes it anew.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn told_by_cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(arguments)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns names and versions of the foreign crates that are linked in on Linux.
fn linked() -> BTreeSet<(String, String)> {
    let told = told_by_cargo(&["tree", "-e", "normal", "--prefix", "none", "--offline"]);
    told.lines()
        .filter(|line| !line.contains(" (/"))
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, version)| {
            let version = version.split(' ').next().unwrap_or(version);
            (name.to_owned(), version.to_owned())
        })
        .collect()
}

/// Returns the folder of a crate's source.
fn source(name: &str, version: &str) -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME")).join(".cargo"),
        PathBuf::from,
    );
    let registries = std::fs::read_dir(home.join("registry/src")).expect("a registry");
    registries
        .map(|registry| registry.expect("a folder").path())
        .map(|registry| registry.join(format!("{name}-{version}")))
        .find(|folder| folder.exists())
        .unwrap_or_else(|| panic!("the source of {name} {version} is not in the registry"))
}

#[test]
fn the_licences_of_all_crates_are_there() {
    let mut written = String::from(
        "The libraries of tickwheel for C contain these crates, each under the licence that follows it, and the\n\
         standard library of Rust (MIT or Apache-2.0), whose notices come with Rust as COPYRIGHT-library.html.\n",
    );
    for (name, version) in linked() {
        let text = std::fs::read_to_string(source(&name, &version).join("LICENSE-MIT"));
        let text = text.unwrap_or_else(|error| panic!("{name} has no MIT licence: {error}"));
        let title = format!("{name} {version}");
        let line = "-".repeat(title.len());
        written += &format!(
            "\n{title}\n{line}\n\n{}\n",
            text.replace("\r\n", "\n").trim()
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("THIRD-PARTY.txt");
    if std::env::var_os("TICKWHEEL_WRITE_LICENCES").is_some() {
        std::fs::write(&path, &written).expect("the file is writable");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == written,
        "THIRD-PARTY.txt differs: TICKWHEEL_WRITE_LICENCES=1 cargo test -p tickwheel-c --test licences"
    );
}

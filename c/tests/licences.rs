//! `THIRD-PARTY.txt` has the licence of each crate that the libraries contain; `make install` puts it beside them.
//! `scripts/licences.sh c/Cargo.toml >c/THIRD-PARTY.txt` writes it anew.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

#[test]
fn the_licences_of_all_crates_are_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let told = Command::new("../scripts/licences.sh")
        .current_dir(folder)
        .arg("Cargo.toml")
        .output()
        .expect("bash runs");
    assert!(told.status.success(), "{told:?}");
    let committed = std::fs::read(folder.join("THIRD-PARTY.txt")).expect("the file");
    assert!(
        committed == told.stdout,
        "THIRD-PARTY.txt differs: scripts/licences.sh c/Cargo.toml >c/THIRD-PARTY.txt"
    );
}

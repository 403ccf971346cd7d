//! Says which commit, compiler and profile the program is built from, for the head of its reports.

use std::process::Command;

fn main() {
    // The commit alone, without the name of a tag; "-dirty" for changes that are not committed.
    let commit = said_by(
        "git",
        &[
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ],
    );
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let compiler = said_by(&rustc, &["--version"]).unwrap_or_else(|| "unknown".to_owned());
    let profile = std::env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=TICKWHEEL_COMMIT={commit}");
    println!("cargo::rustc-env=TICKWHEEL_COMPILER={compiler}");
    println!("cargo::rustc-env=TICKWHEEL_PROFILE={profile}");
    for path in ["build.rs", "src", "../src", "../Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(log) = said_by("git", &["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// The first line that a program prints, if it prints one.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines()
        .next()
        .map(str::to_owned)
        .filter(|_| output.status.success())
}

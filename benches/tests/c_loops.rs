//! The comparison with the timers of C runs to its end, at sizes that mean nothing.
#![cfg(target_os = "linux")]

use std::process::Command;

#[test]
fn every_library_that_is_here_is_measured() {
    let program = Command::new(env!("CARGO_BIN_EXE_c-loops"))
        .args(["--rounds", "1", "--timers", "100", "--steps", "1000"])
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (tables, errors) = (text(program.stdout), text(program.stderr));
    assert!(program.status.success(), "{tables}{errors}");
    for library in ["tickwheel", "tickwheel, with remotes"] {
        assert!(tables.contains(&format!("\n| {library} | ")), "{tables}");
    }
    for library in ["libuv", "libevent", "libev"] {
        let is_missing = ["is not installed", "does not take part"]
            .iter()
            .any(|reason| tables.contains(&format!("{library} {reason}")));
        let is_measured = tables.contains(&format!("\n| {library} | "));
        assert_ne!(is_missing, is_measured, "{library}:\n{tables}");
    }
}

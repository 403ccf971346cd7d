//! The program `walk` names functions of `src`, which may have other names by now.

use std::process::Command;

#[test]
fn every_walk_is_counted() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: there is no valgrind");
        return;
    }
    let walked = Command::new(env!("CARGO_BIN_EXE_walk"))
        .output()
        .expect("the program runs");
    let table = String::from_utf8_lossy(&walked.stdout);
    let said = String::from_utf8_lossy(&walked.stderr);
    assert!(walked.status.success(), "{table}{said}");
    for name in ["schedule", "cancel", "turn", "worker", "stop", "local-poll"] {
        let row = table
            .lines()
            .find(|row| row.split_whitespace().next() == Some(name));
        let row = row.unwrap_or_else(|| panic!("no row {name} in\n{table}"));
        let functions = row
            .split_whitespace()
            .nth(1)
            .and_then(|it| it.parse::<u32>().ok());
        assert!(functions.is_some_and(|count| count >= 10), "{row}");
    }
}

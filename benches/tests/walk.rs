//! The program `walk` names functions of `src`, which may have other names by now.

use std::process::Command;

#[test]
fn every_walk_sees_functions() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: there is no valgrind");
        return;
    }
    for name in ["schedule", "cancel", "turn", "worker", "stop", "local-poll"] {
        let walked = Command::new(env!("CARGO_BIN_EXE_walk"))
            .arg(name)
            .output()
            .expect("the program runs");
        let table = String::from_utf8_lossy(&walked.stdout);
        let said = String::from_utf8_lossy(&walked.stderr);
        // Without debug information functions are seen, and their files are not.
        let is_seen = walked.status.success() || said.contains("without debug information");
        assert!(is_seen, "{name}: {table}{said}");
        let rows = table.lines().filter(|row| row.contains(".rs ")).count();
        // A worker's way from its start to its end is the longest one.
        let least = if name == "worker" { 100 } else { 10 };
        assert!(rows >= least || !walked.status.success(), "{name}: {table}");
    }
}

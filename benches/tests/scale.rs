//! The program that measures scale, at sizes that only show that it runs.

use std::process::Command;

#[test]
fn every_work_runs_and_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("scale.svg");
    let program = Command::new(env!("CARGO_BIN_EXE_scale"))
        .args(["--tiny", "--rounds", "1", "--threads", "1,2", "--out"])
        .arg(&chart)
        .output()
        .unwrap();
    let table = String::from_utf8(program.stdout).unwrap();
    assert!(program.status.success(), "{table}");
    let rows = table.lines().filter(|line| line.contains("/s |"));
    assert_eq!(rows.count(), 5, "{table}");
    let firsts = table.lines().filter(|line| line.starts_with("| beside"));
    assert!(firsts.clone().all(|line| line.contains("| 1.00 |")) && firsts.count() == 5);
    let svg = std::fs::read_to_string(chart).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
}

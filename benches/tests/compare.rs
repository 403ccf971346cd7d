//! The program itself, at sizes that only show that every figure runs, and that none loses a timer.

use std::process::Command;
use tickwheel_benches::figure::{Figure, Scale};

fn compare(arguments: &[&str]) -> (bool, String, String) {
    let program = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        program.status.success(),
        text(program.stdout),
        text(program.stderr),
    )
}

#[test]
fn every_figure_of_every_peer_runs() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.md");
    std::fs::write(&page, "# Figures\n\nText that stays.\n").unwrap();
    let (ok, tables, errors) =
        compare(&["--tiny", "--repeats", "1", "--out", page.to_str().unwrap()]);
    assert!(ok && !errors.contains("failed"), "{errors}");
    assert!(
        !tables.contains("failed:") && !tables.contains("| - |  |"),
        "{tables}"
    );
    for figure in Figure::all(Scale::Tiny) {
        let id = figure.id;
        assert!(tables.contains(&format!("### {id}\n")), "{id} is missing");
        let chart = folder.path().join(format!("page/{id}.svg"));
        assert!(std::fs::read_to_string(chart).unwrap().starts_with("<svg"));
    }
    let written = std::fs::read_to_string(page).unwrap();
    assert!(written.contains("Text that stays.") && written.contains(tables.trim()));
}

#[test]
fn a_part_may_be_chosen() {
    let arguments = [
        "--tiny",
        "--repeats",
        "2",
        "--only",
        "rearm",
        "--peers",
        "local-timer,heap",
    ];
    let (ok, tables, _) = compare(&arguments);
    assert!(ok && tables.contains("### rearm-100k") && !tables.contains("### churn"));
    assert!(
        tables.contains("| BinaryHeap, lazy removal |") && tables.contains("2 interleaved repeats")
    );
}

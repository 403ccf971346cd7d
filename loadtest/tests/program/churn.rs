//! Runs `loadtest churn` as a user would.

use super::{assert_ok, ends, folder, json, number};

#[test]
fn what_comes_and_goes_leaves_exact_books() {
    let folder = folder();
    let (out, _) = ends(
        &folder,
        "churn --duration 2s --no-report --json out.json",
        0,
    );
    assert!(out.contains("verdict: OK"), "{out}");
    let json = json(&folder, "out.json");
    assert_ok(&json, &["early", "twice", "lost", "mismatches"]);
    let counts = &json["counts"];
    let ended = ["fired", "cancelled", "returned"].map(|end| number(counts, end));
    assert!(ended.iter().all(|count| *count > 0), "{json:#}");
    assert_eq!(number(counts, "accepted"), ended.iter().sum::<u64>());
    for what in ["threads", "engines", "moves"] {
        let count = json["phases"][0]["figures"][what]["value"].as_f64();
        assert!(count > Some(1.0), "{what}: {json:#}");
    }
}

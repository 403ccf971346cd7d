//! Every loom model and seeded bug stands in the tables of `loom-tests/README.md`, and the patterns that pages write
//! for several models match one.

use super::{assert_none, files_below, quoted, read, root};
use std::collections::BTreeSet;

/// The models by the names that loom prints: `room::scenario`, or `room::module::scenario`.
fn models() -> Vec<String> {
    let mut models = Vec::new();
    for path in files_below("loom-tests/models") {
        let room = path.trim_start_matches("loom-tests/models/").trim_end_matches(".rs");
        let (mut inside, mut is_test) = (room.to_owned(), false);
        for line in read(&path).lines() {
            if let Some(module) = line.strip_prefix("mod ").and_then(|it| it.strip_suffix(" {")) {
                inside = format!("{room}::{module}");
            } else if line == "}" {
                inside = room.to_owned();
            }
            let code = line.trim_start();
            if let Some(name) = code.strip_prefix("fn ").filter(|_| is_test) {
                models.push(format!("{inside}::{}", name.split('(').next().unwrap_or(name)));
            }
            is_test = code == "#[test]" || (is_test && code.starts_with("#["));
        }
    }
    models
}

#[test]
fn every_model_has_a_row() {
    let page = read("loom-tests/README.md");
    let models = models();
    assert!(models.len() > 80, "only {} models were found", models.len());
    let shown = rows(&page, "\n| model | what must hold |\n").into_iter().map(|(model, _)| model);
    assert_eq!(shown.collect::<BTreeSet<_>>(), models.into_iter().collect());
}

/// The rows of a table of `loom-tests/README.md` by their quoted names: the first cell's, and the second cell's if
/// there is just one.
fn rows(page: &str, head: &str) -> Vec<(String, String)> {
    let table = page.split(head).nth(1).expect("the table").trim_start();
    let cell = |row: &str, n| row.split('`').nth(n).unwrap_or_default().to_owned();
    table
        .lines()
        .skip(1)
        .take_while(|it| it.starts_with('|'))
        .map(|it| (cell(it, 1), cell(it, 3)))
        .collect()
}

#[test]
fn every_seeded_bug_has_its_row() {
    let page = read("loom-tests/README.md");
    let seeded = rows(&page, "\n| seeded bug | caught by | what was broken |\n");
    let mut patches = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("loom-tests/seeded-bugs")).expect("the patches") {
        let path = entry.expect("a patch").path();
        let patch = std::fs::read_to_string(&path).expect("text");
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let first = patch.lines().next().unwrap_or_default();
        patches.insert((name, first.trim_start_matches("Caught by: ").to_owned()));
    }
    assert_eq!(seeded.iter().cloned().collect::<BTreeSet<_>>(), patches);
    let models = models();
    let unknown: Vec<_> = seeded.iter().filter(|(_, it)| !models.contains(it)).collect();
    assert!(unknown.is_empty(), "no model is what these patches run: {unknown:?}");
}

#[test]
fn patterns_of_models_match_one() {
    let models = models();
    let mut found = Vec::new();
    let mut patterns = 0;
    for page in ["docs/DESIGN.md", "docs/TESTING.md"] {
        let text = read(page);
        for pattern in quoted(&text).filter(|name| name.contains("::") && name.contains('*')) {
            patterns += 1;
            let (begin, end) = pattern.split_once('*').unwrap_or((pattern, ""));
            if !models.iter().any(|model| model.starts_with(begin) && model.ends_with(end)) {
                found.push(format!("{page}: no model is {pattern}"));
            }
        }
    }
    assert!(patterns >= 5, "nothing was looked at: {patterns} patterns");
    assert_none("patterns of models", &found);
}

//! Every loom model stands in the tables of `loom-tests/README.md`, and the patterns that pages write for several of
//! them match one.

use super::{assert_none, files_below, quoted, read};

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
fn every_model_has_a_row_with_its_bound() {
    let page = read("loom-tests/README.md");
    let tables = page.split("\n## With the stand-in\n").nth(1).expect("the tables of bounds");
    let table = tables.split("\n## ").next().unwrap_or(tables);
    let models = models();
    assert!(models.len() > 90, "only {} models were found", models.len());
    let has_row = |model: &&String| table.contains(&format!("\n| `{model}` | "));
    let missing: Vec<String> = models.iter().filter(|model| !has_row(model)).cloned().collect();
    assert_none("models without a row in loom-tests/README.md", &missing);
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

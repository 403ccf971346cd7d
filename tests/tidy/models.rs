//! Every loom model says what must hold, every seeded bug names its model, and the patterns that pages write for
//! several models match one.

use super::{assert_none, files_below, quoted, read, root};

/// The models by the names that loom prints: `room::scenario`, or `room::module::scenario`; each must say what holds.
fn models() -> Vec<String> {
    let mut models = Vec::new();
    for path in files_below("loom-tests/models") {
        let room = path.trim_start_matches("loom-tests/models/").trim_end_matches(".rs");
        let (mut inside, mut is_test, mut explained) = (room.to_owned(), false, false);
        for line in read(&path).lines() {
            if let Some(module) = line.strip_prefix("mod ").and_then(|it| it.strip_suffix(" {")) {
                inside = format!("{room}::{module}");
            } else if line == "}" {
                inside = room.to_owned();
            }
            let code = line.trim_start();
            if let Some(name) = code.strip_prefix("fn ").filter(|_| is_test) {
                let model = format!("{inside}::{}", name.split('(').next().unwrap_or(name));
                assert!(explained, "the model {model} has no comment that says what must hold");
                models.push(model);
            }
            is_test = code == "#[test]" || (is_test && code.starts_with("#["));
            let goes_on = code.starts_with("#[") || code.starts_with("//");
            explained = code.starts_with("///") || (explained && goes_on);
        }
    }
    models
}

#[test]
fn every_seeded_bug_names_a_model_and_what_it_breaks() {
    let models = models();
    assert!(models.len() > 50, "only {} models were found", models.len());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("loom-tests/seeded-bugs")).expect("the patches") {
        let path = entry.expect("a patch").path();
        let patch = std::fs::read_to_string(&path).expect("text");
        let mut lines = patch.lines();
        let model = lines.next().and_then(|line| line.strip_prefix("Caught by: ")).unwrap_or("");
        if !models.iter().any(|it| it == model) {
            found.push(format!("{}: there is no model \"{model}\"", path.display()));
        }
        if lines.next().unwrap_or("").is_empty() {
            found.push(format!("{}: it does not say what it breaks", path.display()));
        }
    }
    assert_none("seeded bugs", &found);
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

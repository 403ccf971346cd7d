//! What the documents name exists: tests, models and files.

use super::{assert_none, files_below, quoted, read, root};
use std::collections::BTreeSet;

/// Documents that speak of what is there now.
const PAGES: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "docs/DESIGN.md",
    "docs/EMBEDDING.md",
    "docs/GUIDE.md",
    "docs/PERFORMANCE.md",
    "docs/SYSTEMS.md",
    "docs/TESTING.md",
    "loom-tests/README.md",
];

/// What a path in this repository begins with.
const FOLDERS: &[&str] = &[
    "src/",
    "tests/",
    "examples/",
    "docs/",
    "scripts/",
    "loom-tests/",
    "fuzz/",
    "benches/",
    "loadtest/",
    "adapters/",
    "delayed-jobs/",
];

/// Whether it can be looked up: no pattern, no option, no code.
fn is_plain(text: &str) -> bool {
    text.chars().all(|letter| letter.is_alphanumeric() || "_-./:".contains(letter))
}

fn is_path(text: &str) -> bool {
    is_plain(text) && FOLDERS.iter().any(|folder| text.starts_with(folder))
}

/// `room/file.rs` or `room/file.rs:7`, as a page may call a file of the library: the end of its path.
fn end_of_path(text: &str) -> Option<String> {
    let file = text.trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches(':');
    let is_file = is_plain(file) && file.contains('/') && file.ends_with(".rs");
    is_file.then(|| format!("/{file}"))
}

/// `room::test` in small letters, as tests and models are named.
fn is_test(text: &str) -> bool {
    let small = |part: &str| {
        !part.is_empty() && part.chars().all(|it| it.is_ascii_lowercase() || it == '_')
    };
    text.contains("::") && text.split("::").all(small)
}

/// The names of all functions, modules and files in which there may be tests.
fn known() -> BTreeSet<String> {
    let folders =
        ["src", "tests", "loom-tests/models", "loadtest", "adapters", "benches", "delayed-jobs"];
    let mut known = BTreeSet::new();
    for path in folders.iter().flat_map(|folder| files_below(folder)) {
        for line in read(&path).lines() {
            let mut words = line.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            while let Some(word) = words.next() {
                if word == "fn" || word == "mod" {
                    known.extend(words.next().map(str::to_owned));
                }
            }
        }
    }
    known
}

#[test]
fn pages_name_what_exists() {
    let (known, library) = (known(), files_below("src"));
    let mut found = Vec::new();
    let (mut paths, mut tests) = (0, 0);
    for page in PAGES {
        for (number, line) in read(page).lines().enumerate() {
            for name in quoted(line) {
                let missing = if is_path(name) {
                    paths += 1;
                    !root().join(name.trim_end_matches('/')).exists()
                } else if let Some(end) = end_of_path(name) {
                    paths += 1;
                    !library.iter().any(|path| path.ends_with(&end))
                } else if is_test(name) && !name.starts_with("tokio") {
                    tests += 1;
                    name.rsplit("::").next().is_some_and(|last| !known.contains(last))
                } else {
                    false
                };
                if missing {
                    found.push(format!("{page}:{}: there is no {name}", number + 1));
                }
            }
        }
    }
    assert!(paths > 50 && tests > 2, "nothing was looked at: {paths} paths, {tests} tests");
    assert_none("what pages name", &found);
}

//! What the documents and the seeded bugs name exists: files, tests and models; and each model says what must hold.

use super::{assert_none, files_below, is_word, quoted, read, root};
use std::collections::BTreeSet;

/// The hand-written pages.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ]
    .map(String::from)
    .into();
    for folder in [
        "docs",
        "docs/performance",
        "loom-tests",
        "fuzz",
        "delayed-jobs",
        "scripts",
        "util",
    ] {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder exists") {
            let name = entry
                .expect("it can be read")
                .file_name()
                .into_string()
                .expect("a name");
            // Tables that programs print.
            if name.ends_with(".md") && name != "idle-connections.md" {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

/// Whether it can be looked up: no pattern, no option, no code.
fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|letter| letter.is_alphanumeric() || "_-./:".contains(letter))
}

/// Whether a text names a file or folder of this repository by its whole path.
fn is_path(text: &str) -> bool {
    let top = text.split_once('/').map_or("", |(top, _)| top);
    let folders =
        "core src tests examples docs scripts loom-tests fuzz benches loadtest util c delayed-jobs";
    is_plain(text) && folders.split(' ').any(|folder| folder == top)
}

/// `room/file.rs` or `room/file.rs:7`, as a page may call a file of the library: the end of its path.
fn end_of_path(text: &str) -> Option<String> {
    let file = text
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .trim_end_matches(':');
    let is_file = is_plain(file) && file.contains('/') && file.ends_with(".rs");
    is_file.then(|| format!("/{file}"))
}

/// `room::test` in small letters, as tests and models are named; or a pattern of such names.
fn is_test(text: &str) -> bool {
    let small = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|it| it.is_ascii_lowercase() || "_*".contains(it))
    };
    text.contains("::") && text.split("::").all(small) && !text.starts_with("tokio")
}

/// The names of all functions, modules and files in which there may be tests.
fn known() -> BTreeSet<String> {
    let folders = [
        "core",
        "src",
        "tests",
        "loom-tests/models",
        "loadtest",
        "util",
        "benches",
        "delayed-jobs",
    ];
    let mut known = BTreeSet::new();
    for path in folders.iter().flat_map(|folder| files_below(folder)) {
        for line in read(&path).lines() {
            let mut words = line.split(|letter| !is_word(letter));
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
    let library = [files_below("core/src"), files_below("src")].concat();
    let (known, models) = (known(), models());
    let mut found = Vec::new();
    let mut seen = [0; 3];
    // The changelog speaks of what was there.
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        for (number, line) in read(page).lines().enumerate() {
            for name in quoted(line) {
                let (kind, exists) = if is_path(name) {
                    // As seen from the root, or from the page's own folder.
                    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
                    (
                        0,
                        [root(), root().join(folder)]
                            .iter()
                            .any(|it| it.join(name).exists()),
                    )
                } else if let Some(end) = end_of_path(name) {
                    (0, library.iter().any(|path| path.ends_with(&end)))
                } else if let Some((begin, end)) = name.split_once('*').filter(|_| is_test(name)) {
                    (
                        1,
                        models
                            .iter()
                            .any(|it| it.starts_with(begin) && it.ends_with(end)),
                    )
                } else if is_test(name) {
                    (
                        2,
                        name.rsplit("::")
                            .next()
                            .is_some_and(|last| known.contains(last)),
                    )
                } else {
                    continue;
                };
                seen[kind] += 1;
                found.extend((!exists).then(|| format!("{page}:{}: no {name}", number + 1)));
            }
        }
    }
    assert!(
        seen[0] > 50 && seen[1] >= 5 && seen[2] > 2,
        "nothing was looked at: {seen:?}"
    );
    assert_none("what pages name", &found);
}

/// The models by the names that loom prints: `room::scenario`, or `room::module::scenario`; each must say what holds.
fn models() -> Vec<String> {
    let mut models = Vec::new();
    for path in files_below("loom-tests/models") {
        let room = path
            .trim_start_matches("loom-tests/models/")
            .trim_end_matches(".rs");
        let (mut inside, mut is_test, mut explained) = (room.to_owned(), false, false);
        for line in read(&path).lines() {
            if let Some(module) = line
                .strip_prefix("mod ")
                .and_then(|it| it.strip_suffix(" {"))
            {
                inside = format!("{room}::{module}");
            } else if line == "}" {
                inside = room.to_owned();
            }
            let code = line.trim_start();
            if let Some(name) = code.strip_prefix("fn ").filter(|_| is_test) {
                let model = format!("{inside}::{}", name.split('(').next().unwrap_or(name));
                assert!(
                    explained,
                    "the model {model} has no comment that says what must hold"
                );
                models.push(model);
            }
            is_test = code == "#[test]" || (is_test && code.starts_with("#["));
            let goes_on = code.starts_with("#[") || code.starts_with("//");
            explained = code.starts_with("///") || (explained && goes_on);
        }
    }
    assert!(models.len() > 50, "only {} models were found", models.len());
    models
}

#[test]
fn every_seeded_bug_names_a_model_and_what_it_breaks_and_applies_to_the_code() {
    let models = models();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("loom-tests/seeded-bugs")).expect("the patches") {
        let path = entry.expect("a patch").path();
        let patch = std::fs::read_to_string(&path).expect("text");
        let mut lines = patch.lines();
        let model = lines
            .next()
            .and_then(|line| line.strip_prefix("Caught by: "))
            .unwrap_or("");
        if !models.iter().any(|it| it == model) {
            found.push(format!("{}: there is no model \"{model}\"", path.display()));
        }
        if lines.next().unwrap_or("").is_empty() {
            found.push(format!(
                "{}: it does not say what it breaks",
                path.display()
            ));
        }
        let mut git = std::process::Command::new("git");
        git.current_dir(root())
            .args(["apply", "--check"])
            .arg(&path);
        // Outside of a repository `git apply` works as well; without git the script finds out.
        if let Some(checked) = git.output().ok().filter(|it| !it.status.success()) {
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            found.push(format!("{}: {}", path.display(), said.trim()));
        }
    }
    assert_none("seeded bugs", &found);
}

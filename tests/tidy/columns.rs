//! Lines that can be read without scrolling: 100 columns of code, 120 of prose.
//!
//! A row of a table, in Markdown or in a comment, is one line whatever it holds. A line of code with a text
//! in it may be as wide as prose, because rustfmt does not break texts.

use super::{assert_none, root};
use std::path::{Path, PathBuf};

const CODE: usize = 100;
const PROSE: usize = 120;

/// Files with wider lines, and why.
const WIDE: &[(&str, &str)] =
    &[("docs/performance/comparison.md", "written by the comparison program")];

/// Every file of ours with one of these extensions, in order.
fn files(extensions: &[&str]) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        // What git ignores is built or found, not written.
        let ignored = ["target", "artifacts", "coverage"];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !ignored.contains(&name.as_str()) && !name.starts_with('.') {
                walk(&path, found);
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    let wanted = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extensions.iter().any(|it| extension == *it))
    };
    let relative =
        |path: PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    let mut found: Vec<String> = found.into_iter().filter(wanted).map(relative).collect();
    found.sort();
    found
}

/// How wide a line may be; `None` for as wide as it is.
fn limit(path: &str, line: &str) -> Option<usize> {
    let line = line.trim_start();
    let prose = line.trim_start_matches(['/', '!']).trim_start();
    let is_row = |text: &str| text.starts_with('|');
    if path.ends_with(".md") {
        (!is_row(line)).then_some(PROSE)
    } else if path.ends_with(".sh") {
        Some(PROSE)
    } else if line.starts_with("//") {
        (!is_row(prose)).then_some(PROSE)
    } else {
        Some(if line.contains('"') { PROSE } else { CODE })
    }
}

#[test]
fn lines_can_be_read_without_scrolling() {
    let mut found = Vec::new();
    for path in files(&["rs", "md", "sh"]) {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        let wide = |line: &&str| limit(&path, line).is_some_and(|most| line.chars().count() > most);
        let excepted = WIDE.iter().any(|(file, _)| *file == path);
        let lines = text.lines().enumerate().filter(|(_, line)| wide(line));
        let lines: Vec<String> =
            lines.map(|(index, _)| format!("{path}:{} is too wide", index + 1)).collect();
        if excepted && lines.is_empty() {
            found.push(format!("{path}: needs no exception any more"));
        } else if !excepted {
            found.extend(lines);
        }
    }
    for (path, _) in WIDE.iter().filter(|(path, _)| !root().join(path).exists()) {
        found.push(format!("{path} is excepted and does not exist"));
    }
    assert_none("wide lines, see WIDE", &found);
}

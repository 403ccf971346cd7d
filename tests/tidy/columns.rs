//! Lines that can be read without scrolling: 100 columns of code, 120 of prose.
//!
//! A row of a table, in Markdown or in a comment, is one line whatever it holds. A line of code with a text
//! in it may be as wide as prose, because rustfmt does not break texts.

use super::{assert_none, files, read};

const CODE: usize = 100;
const PROSE: usize = 120;

/// Written by the comparison program.
const GENERATED: &str = "docs/performance/comparison.md";

/// How wide a line may be; `None` for any width.
fn limit(path: &str, line: &str) -> Option<usize> {
    let prose = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    let is_comment = path.ends_with(".rs") && line.trim_start().starts_with("//");
    match prose.starts_with('|') && (is_comment || path.ends_with(".md")) {
        true => None,
        false if is_comment || !path.ends_with(".rs") || line.contains('"') => Some(PROSE),
        false => Some(CODE),
    }
}

#[test]
fn lines_can_be_read_without_scrolling() {
    let mut found = Vec::new();
    for path in files(".", &["rs", "md", "sh"]).iter().filter(|path| *path != GENERATED) {
        for (index, line) in read(path).lines().enumerate() {
            if limit(path, line).is_some_and(|most| line.chars().count() > most) {
                found.push(format!("{path}:{} is too wide", index + 1));
            }
        }
    }
    assert_none("wide lines", &found);
}

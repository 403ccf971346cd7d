//! Rust in pages and doc comments fits its column on docs.rs.

use super::links::pages;
use super::{assert_none, files_below, read};

/// docs.rs cuts what is longer, on a page of 1200 pixels.
const WIDTH: usize = 90;

/// Returns whether a block that opens with this is Rust.
fn is_rust(opening: &str, by_default: bool) -> bool {
    match opening.split(',').next().unwrap_or("") {
        "" => by_default,
        word => ["rust", "no_run", "should_panic", "compile_fail"].contains(&word),
    }
}

#[test]
fn shown_rust_is_at_most_90_letters_wide() {
    let sources = ["core/src", "src", "util/src"]
        .iter()
        .flat_map(|it| files_below(it));
    let (mut found, mut seen) = (Vec::new(), 0);
    for path in pages().into_iter().chain(sources) {
        let is_source = path.ends_with(".rs");
        let (mut inside, mut shown) = (false, false);
        for (index, line) in read(&path).lines().enumerate() {
            let text = if is_source {
                let comment = line.trim_start();
                match ["///", "//!"]
                    .iter()
                    .find_map(|it| comment.strip_prefix(it))
                {
                    Some(text) => text.strip_prefix(' ').unwrap_or(text),
                    None => continue,
                }
            } else {
                line
            };
            if let Some(opening) = text.trim_start().strip_prefix("```") {
                inside = !inside;
                shown = inside && is_rust(opening, is_source);
                seen += usize::from(shown);
            } else if shown && !text.starts_with("# ") && text.chars().count() > WIDTH {
                found.push(format!("{path}:{}", index + 1));
            }
        }
    }
    assert!(seen > 150, "only {seen} blocks were looked at");
    assert_none("lines of more than 90 letters in a block", &found);
}

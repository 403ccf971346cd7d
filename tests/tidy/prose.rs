//! Holds the measures of plain English: comments name their actors, sentences and pages are short.

use super::{assert_none, files_below, read, root};

/// Doc comments that open with "What", "Who" or "As `".
const OPENINGS: usize = 0;
/// Comments of `src` that say whoever, whatever, somebody, nobody, anybody or others.
const ACTORS: usize = 30;
/// Words in the hand-written pages, without code.
const WORDS: usize = 19_000;
/// Sentences of more than 40 words in these pages.
const LONG_SENTENCES: usize = 0;

const VAGUE: [&str; 6] = ["whoever", "whatever", "somebody", "nobody", "anybody", "others"];

/// The hand-written pages.
pub(super) fn pages() -> Vec<String> {
    let mut pages: Vec<String> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(String::from).into();
    for folder in ["docs", "docs/performance", "loom-tests", "fuzz", "delayed-jobs", "adapters"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("the folder exists") {
            let name = entry.expect("it can be read").file_name().into_string().expect("a name");
            // Tables that programs print.
            if name.ends_with(".md") && !["comparison.md", "idle-connections.md"].contains(&&*name)
            {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages
}

/// Returns a page without its code blocks.
fn without_code(text: &str) -> String {
    text.split("```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// Counts the sentences of more than 40 words, without headings, tables and indented lines.
fn long_sentences(text: &str) -> usize {
    let is_prose = |line: &&str| !["|", "#", "    "].iter().any(|start| line.starts_with(start));
    let prose = text.lines().filter(is_prose).collect::<Vec<_>>().join(" ");
    let (mut words, mut long) = (0, 0);
    for word in prose.split_whitespace() {
        words += 1;
        if word.ends_with(['.', '!', '?']) {
            long += usize::from(words > 40);
            words = 0;
        }
    }
    long + usize::from(words > 40)
}

/// Counts doc comments with a forbidden opening, and vague actors in all comments.
fn vague(text: &str) -> (usize, usize) {
    let (mut openings, mut actors, mut inside) = (0, 0, false);
    for line in text.lines().map(str::trim) {
        let doc =
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        let forbidden =
            |doc: &str| ["What", "Who", "As `", "As [`"].iter().any(|o| doc.starts_with(o));
        openings += usize::from(!inside && doc.is_some_and(forbidden));
        inside = doc.is_some();
        if line.starts_with("//") {
            let words = line.split(|letter: char| !letter.is_alphanumeric());
            actors += words.filter(|word| VAGUE.contains(&word.to_lowercase().as_str())).count();
        }
    }
    (openings, actors)
}

#[test]
fn prose_is_plain() {
    let (mut openings, mut actors, mut words, mut long) = (0, 0, 0, 0);
    for path in files_below("src") {
        let (opened, named) = vague(&read(&path));
        openings += opened;
        actors += named;
    }
    for page in pages() {
        let text = without_code(&read(&page));
        words += text.split_whitespace().count();
        long += long_sentences(&text);
    }
    let over: Vec<String> = [
        ("doc comments that open with What, Who or As", openings, OPENINGS),
        ("vague actors in comments", actors, ACTORS),
        ("words in the pages", words, WORDS),
        ("sentences of more than 40 words", long, LONG_SENTENCES),
    ]
    .into_iter()
    .inspect(|(what, count, most)| println!("{what}: {count} of {most}"))
    .filter(|(_, count, most)| count > most)
    .map(|(what, count, most)| format!("{count} {what}, {most} are allowed"))
    .collect();
    assert_none("plain English", &over);
}

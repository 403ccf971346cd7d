//! One meaning per word: the glossary of `docs/DESIGN.md` held against the code.

use super::{assert_none, files_below, read};
use std::collections::BTreeSet;

/// Words that meant two things, or what the field has another word for; what to say instead.
const RETIRED: &[(&str, &str)] = &[
    ("nursery", "staging buffer"),
    ("lane", "thread state"),
    ("rack", "thread cache"),
    ("turner", "driver"),
    ("sleeper", "parker"),
    ("summon", "request a turn"),
    ("nudge", "unpark"),
    ("seat", "shard worker"),
    ("hole", "unpublished slot, or tombstone in a queue"),
    ("horizon", "threshold"),
    ("unseen", "without a look"),
    ("rearm", "reschedule"),
    ("tally", "totals"),
];

/// The words of an identifier or a text, in lower case.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in text.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("it begins with one").extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The glossary's words, and the lines that explain them.
fn glossary() -> Vec<(String, String)> {
    let page = read("docs/DESIGN.md");
    let (_, section) = page.split_once("## Words").expect("it has a glossary");
    let section = section.split("\n## ").next().expect("a text has a begin");
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word"));
    let cells = rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(|cell| cell.trim().to_owned());
        (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
    });
    cells.collect()
}

#[test]
fn the_glossary_is_spoken_in_the_code() {
    let sources: String = files_below("src").iter().map(|path| read(path)).collect();
    let spoken = words(&sources);
    let phrases: BTreeSet<String> =
        (1..=3).flat_map(|length| spoken.windows(length).map(|phrase| phrase.join(" "))).collect();
    let glossary = glossary();
    assert!(glossary.len() >= 20, "the glossary was not found");
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for (entry, meaning) in &glossary {
        for word in entry.split(" / ") {
            let word = word.to_lowercase();
            let plural = format!("{word}s");
            if !phrases.contains(&word) && !phrases.contains(&plural) {
                found.push(format!("\"{word}\" is explained and nowhere in src"));
            }
            if !known.insert(word.clone()) {
                found.push(format!("\"{word}\" is explained twice"));
            }
        }
        if meaning.is_empty() {
            found.push(format!("\"{entry}\" is not explained"));
        }
    }
    assert_none("docs/DESIGN.md, Words", &found);
}

#[test]
fn retired_words_stay_retired() {
    let mut found = Vec::new();
    for path in files_below("src").into_iter().chain(files_below("tests")) {
        // The list itself.
        if path == "tests/tidy/words.rs" {
            continue;
        }
        for (number, line) in read(&path).lines().enumerate() {
            let spoken = words(line);
            for (word, instead) in RETIRED {
                if spoken.iter().any(|it| it == word || it.strip_suffix('s') == Some(word)) {
                    found.push(format!("{path}:{}: {word}: say {instead}", number + 1));
                }
            }
        }
    }
    assert_none("words that mean two things", &found);
}

#[test]
fn identifiers_fall_into_words() {
    assert_eq!(words("fn wait_idle(ShardHandle2)"), ["fn", "wait", "idle", "shard", "handle2"]);
}

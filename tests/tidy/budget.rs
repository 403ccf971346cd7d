//! Holds the budget: lines of code, types, constants and rows of the glossary. Whoever adds code names what goes.

use super::{assert_none, files_below, is_word, read, sources};
use std::collections::BTreeSet;

/// Lines of code in `src`: no comments, no blank lines, no tests.
const SRC: usize = 13_000;
/// Structs, enums, traits and unions in `src`.
const TYPES: usize = 200;
/// Constants in `src`.
const CONSTANTS: usize = 170;
/// Lines of code in one file of `src`: a noun with all its verbs.
const FILE: usize = 300;
/// Lines of Rust in all members of the workspace, tests and models included.
const WORKSPACE: usize = 50_000;
/// Rows of the glossary in `docs/DESIGN.md`.
const GLOSSARY: usize = 30;

/// Returns a declaration without its visibility.
fn declared(line: &str) -> &str {
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, rest)| rest),
        None => rest,
    });
    line.trim_start()
}

#[test]
fn the_budget_holds() {
    let (mut src, mut constants, mut types) = (0, 0, BTreeSet::new());
    let mut over = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        let code = source.code().count();
        src += code;
        if code > FILE {
            over.push(format!("{}: {code} lines of code, {FILE} are allowed", source.path));
        }
        for (_, line) in source.code() {
            let mut words = declared(line.trim()).split(|letter| !is_word(letter));
            match (words.next(), words.next()) {
                (Some("struct" | "enum" | "trait" | "union"), Some(name)) => {
                    types.insert(name.to_owned());
                }
                (Some("const"), Some(name)) => {
                    constants +=
                        usize::from(!name.is_empty() && !name.contains(char::is_lowercase));
                }
                _ => {}
            }
        }
    }
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let code_of = |path: &String| read(path).lines().filter(is_code).count();
    let workspace: usize = files_below(".").iter().map(code_of).sum();
    let page = read("docs/DESIGN.md");
    let words = page.split("\n## Words").nth(1).expect("the glossary");
    let rows = words.split("\n## ").next().unwrap_or(words);
    let glossary = rows.lines().filter(|line| line.starts_with("| ")).count() - 1;
    for (what, count, most) in [
        ("lines of code in src", src, SRC),
        ("named types in src", types.len(), TYPES),
        ("constants in src", constants, CONSTANTS),
        ("lines of code in the workspace", workspace, WORKSPACE),
        ("rows of the glossary", glossary, GLOSSARY),
    ] {
        println!("{what}: {count} of {most}");
        if count > most {
            over.push(format!("{count} {what}, {most} are allowed"));
        }
    }
    assert_none("the budget: name what goes before you add", &over);
}

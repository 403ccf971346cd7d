//! Holds the budget: lines of code, types, constants and rows of the glossary. Whoever adds code names what goes.

use super::{assert_none, files_below, is_test_file, read};
use std::collections::BTreeSet;

/// Lines of code in `src`: no comments, no blank lines, no tests.
const SRC: usize = 13_500;
/// Structs, enums, traits and unions in `src`.
const TYPES: usize = 200;
/// Constants in `src`.
const CONSTANTS: usize = 170;
/// Lines of code in one file of `src`: a noun with all its verbs.
const FILE: usize = 300;
/// Lines of Rust in all members of the workspace, tests and models included. The goal is 50 000.
const WORKSPACE: usize = 63_720;
/// Rows of the glossary in `docs/DESIGN.md`.
const GLOSSARY: usize = 30;

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// Returns the lines of code of one file without its modules of unit tests, trimmed.
fn code_of(text: &str) -> Vec<&str> {
    let mut code = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test") {
            let mut attributes = vec![line];
            attributes.extend(std::iter::from_fn(|| lines.next_if(|next| next.starts_with('#'))));
            let item = lines.peek().map_or("", |next| next.trim_start_matches("pub(crate) "));
            if item.starts_with("mod ") && item.ends_with('{') {
                let mut depth = 0i64;
                for inner in lines.by_ref() {
                    depth += inner.matches('{').count() as i64 - inner.matches('}').count() as i64;
                    if depth <= 0 {
                        break;
                    }
                }
                continue;
            }
            code.extend(attributes);
        } else if is_code(line) {
            code.push(line);
        }
    }
    code
}

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
    for path in files_below("src").into_iter().filter(|path| !is_test_file(path)) {
        let text = read(&path);
        let code = code_of(&text);
        src += code.len();
        if code.len() > FILE {
            over.push(format!("{path}: {} lines of code, {FILE} are allowed", code.len()));
        }
        for line in code.into_iter().map(declared) {
            let kind = ["struct ", "enum ", "trait ", "union "].into_iter();
            if let Some(name) = kind.filter_map(|kind| line.strip_prefix(kind)).next() {
                let end = name.find(|it: char| !it.is_alphanumeric()).unwrap_or(name.len());
                types.insert(name[..end].to_owned());
            }
            let name = line.strip_prefix("const ").and_then(|rest| rest.split_once(':'));
            let is_name = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
            constants += usize::from(name.is_some_and(|(name, _)| name.chars().all(is_name)));
        }
    }
    let workspace: usize = files_below(".")
        .iter()
        .map(|path| read(path).lines().filter(|line| is_code(line.trim())).count())
        .sum();
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

#[test]
fn lines_of_code_are_counted_without_tests_and_comments() {
    let tests = "#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
    let text = format!("//! Head\nuse a;\n\n    // why\nfn f() {{}}\n{tests}const A: u8 = 1;");
    assert_eq!(code_of(&text), ["use a;", "fn f() {}", "const A: u8 = 1;"]);
    assert_eq!(declared("pub(crate) struct It;"), "struct It;");
    assert_eq!(declared("pub const X: u8 = 0;"), "const X: u8 = 0;");
}

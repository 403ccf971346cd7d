//! The public interface, item by item, held against `docs/api.txt`, so that no change of it goes unnoticed.
//!
//! After a change that is meant: `TICKWHEEL_WRITE_API=1 cargo test --test public_api`, and look at the difference.
//!
//! Read from the sources: whatever is `pub` can be reached, because the build refuses a `pub` that cannot
//! (`unreachable_pub`). The wheels are left out; their module is hidden and promises nothing.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Not covered by the version's promises.
const HIDDEN: &str = "src/wheel/";

/// What users take apart or put together without leaving anything out, and why it will not grow.
const COMPLETE: &[(&str, &str)] =
    &[("Cancel", "a call wins or loses"), ("Reschedule", "a timer has moved or is gone")];

/// Traits that users implement; all others are sealed, by a private trait or by an implementation for everything.
const OPEN: &[&str] = &["Clock", "Executor"];

/// Traits whose implementations users rely on; others are the crate's own.
const TRAITS: &[&str] = &[
    "Add",
    "Clock",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Display",
    "Drop",
    "Eq",
    "Error",
    "Executor",
    "From",
    "Hash",
    "Iterator",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "RefUnwindSafe",
    "Stream",
    "Sub",
    "UnwindSafe",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A file's code: no comments, no test modules, one statement head per line.
fn code(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut all = text.lines().peekable();
    while let Some(line) = all.next() {
        let for_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        if for_tests {
            match all.peek() {
                Some(next) if next.starts_with("mod ") && next.ends_with('{') => break,
                _ => drop(all.next()),
            }
        } else if !line.trim_start().starts_with("//") && !line.trim().is_empty() {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The head that begins at `lines[at]`, up to its body: formatted code ends it with a brace, a semicolon or, for
/// fields and variants, a comma.
fn head(lines: &[String], at: usize) -> String {
    let mut head = String::new();
    for line in &lines[at..] {
        let line = line.split(" // ").next().unwrap_or(line).trim();
        if !head.is_empty() && !head.ends_with('(') && !line.starts_with([')', '>']) {
            head.push(' ');
        }
        head.push_str(line);
        let open = head.matches(['(', '<', '[']).count()
            > head.matches([')', '>', ']']).count() - arrows(&head);
        // The commas of a `where` end its lines, and not the head.
        let field = head.ends_with(',') && !open && !head.contains(" where ");
        let body = head.ends_with('{') || ((head.ends_with(';') || head.ends_with('}')) && !open);
        if body || field {
            break;
        }
    }
    let head =
        head.split(" { ").next().unwrap_or(&head).trim_end_matches([' ', '{', '}', ';', ',']);
    // How an argument is bound is the function's own affair.
    head.replace(",)", ")").replace(", mut ", ", ").replace("(mut ", "(")
}

/// Arrows are no closing brackets.
fn arrows(text: &str) -> usize {
    text.matches("->").count() + text.matches("=>").count()
}

/// What a file adds to the interface.
fn interface(lines: &[String], names: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<(usize, String)> = None;
    let mut whole = None;
    let mut is_enum = false;
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        if text.starts_with('}') && whole == Some(indent(line)) {
            whole = None;
        }
        if let Some(outer) = whole {
            // Of a trait or an enumeration everything is public, the fields of variants included.
            let depth = if is_enum && indent(line) == 8 { 8 } else { 4 };
            if indent(line) == outer + depth
                && !text.starts_with(['}', '#', ')', '>', '"'])
                && text != "where"
            {
                found.push(format!("{}{}", " ".repeat(depth), head(lines, at)));
            }
            continue;
        }
        if indent(line) == 0 && (text.starts_with("impl") || text.starts_with("unsafe impl")) {
            let header = head(lines, at);
            if is_told(&header, names) {
                found.push(header.clone());
            }
            inside = Some((found.len(), header));
        } else if text.starts_with("pub ") && !text.starts_with("pub mod") && !text.contains('$') {
            let item = head(lines, at);
            if indent(line) > 0 {
                if let Some((place, header)) =
                    inside.take_if(|_| text.starts_with("pub fn") || text.starts_with("pub const"))
                {
                    if found.last() != Some(&header) && place == found.len() {
                        found.push(header);
                    }
                }
                found.push(format!("    {item}"));
            } else {
                found.extend(attributes(lines, at));
                found.push(item.clone());
                if item.starts_with("pub enum") || item.starts_with("pub trait") {
                    whole = Some(0);
                    is_enum = item.starts_with("pub enum");
                }
            }
        }
    }
    found
}

/// Whether the head of an `impl` is of one of `TRAITS` for a public type.
fn is_told(header: &str, names: &BTreeSet<String>) -> bool {
    let Some((of, subject)) = header.rsplit_once(" for ") else { return false };
    let word =
        |text: &str| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_owned();
    let of = of.trim_start_matches("unsafe ").trim_start_matches("impl");
    let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
    let of = of.trim().rsplit("::").next().unwrap_or(of);
    names.contains(&word(subject.trim_start_matches('&'))) && TRAITS.contains(&word(of).as_str())
}

/// What is derived for the type at `at`, and whether it may grow.
fn attributes(lines: &[String], at: usize) -> Vec<String> {
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let told = above.filter(|line| line.contains("derive") || line.contains("non_exhaustive"));
    let mut told: Vec<String> = told.cloned().collect();
    told.reverse();
    told
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Path and text of every source that may hold something public.
fn public_sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    sources(&root().join("src"), &mut paths);
    let named = paths.into_iter().map(|path| {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        (name, std::fs::read_to_string(&path).unwrap())
    });
    let public = |name: &str| {
        !name.starts_with(HIDDEN) && !name.ends_with("tests.rs") && !name.contains("/tests/")
    };
    named.filter(|(name, _)| public(name)).collect()
}

#[test]
fn the_interface_is_what_docs_api_txt_says() {
    let files: Vec<_> =
        public_sources().into_iter().map(|(name, text)| (name, code(&text))).collect();
    let mut names = BTreeSet::new();
    for line in files.iter().flat_map(|(_, lines)| lines) {
        for kind in ["pub struct ", "pub enum ", "pub union "] {
            let name = line
                .strip_prefix(kind)
                .and_then(|rest| rest.split(|c: char| !c.is_alphanumeric()).next());
            names.extend(name.map(str::to_owned));
        }
    }
    let mut told = String::from("The public interface; `tests/public_api.rs` keeps this page.\n");
    for (name, lines) in &files {
        let items = interface(lines, &names);
        if !items.is_empty() {
            let _ = write!(told, "\n{name}\n\n{}\n", items.join("\n"));
        }
    }
    let page = root().join("docs/api.txt");
    if std::env::var_os("TICKWHEEL_WRITE_API").is_some() {
        std::fs::write(&page, &told).unwrap();
    }
    let recorded = std::fs::read_to_string(&page).unwrap_or_default();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (recorded.lines().collect(), told.lines().collect());
    let gone: Vec<_> = old.difference(&new).map(|line| format!("- {line}")).collect();
    let come: Vec<_> = new.difference(&old).map(|line| format!("+ {line}")).collect();
    assert!(
        recorded == told,
        "the public interface has changed; if that is meant, write it down:\n\
         TICKWHEEL_WRITE_API=1 cargo test --test public_api\n{}\n{}",
        gone.join("\n"),
        come.join("\n")
    );
}

#[test]
fn types_that_may_grow_are_non_exhaustive() {
    let mut found = BTreeSet::new();
    for (file, text) in public_sources() {
        let lines = code(&text);
        for (at, line) in lines.iter().enumerate() {
            let name = |kind: &str| {
                let rest = line.strip_prefix(kind)?;
                rest.split(|letter: char| !letter.is_alphanumeric()).next()
            };
            let has_public_fields = || {
                let mut fields = lines[at + 1..].iter().take_while(|line| !line.starts_with('}'));
                line.ends_with('{') && fields.any(|line| line.starts_with("    pub "))
            };
            let name =
                name("pub enum ").or_else(|| name("pub struct ").filter(|_| has_public_fields()));
            let grows = attributes(&lines, at).iter().any(|it| it.contains("non_exhaustive"));
            if let Some(name) = name.filter(|_| !grows) {
                assert!(COMPLETE.iter().any(|it| it.0 == name), "{file}: {name} may not grow");
                found.insert(name.to_owned());
            }
        }
    }
    let listed: BTreeSet<String> = COMPLETE.iter().map(|it| it.0.to_owned()).collect();
    assert_eq!(found, listed, "an exception that is not needed");
}

#[test]
fn only_clocks_and_executors_are_for_users_to_implement() {
    let mut open = Vec::new();
    for (_, text) in public_sources() {
        let sealed = |name: &str| {
            let for_everything = format!("> {name} for ");
            text.contains("mod sealed {")
                || text.contains(&format!("impl<T: Clone{for_everything}T"))
        };
        for line in code(&text) {
            if let Some(rest) = line.strip_prefix("pub trait ") {
                let name = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
                // In a private module: no user can name it.
                if !sealed(name) && name != "LocalWheel" {
                    open.push(name.to_owned());
                }
            }
        }
    }
    open.sort();
    assert_eq!(open, OPEN);
}

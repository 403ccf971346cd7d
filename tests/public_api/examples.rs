//! Every public item is shown in use.
//!
//! * A type, a trait or a function that belongs to none has an example in its own documentation; a function's
//!   example calls it.
//! * A method, or a constant of a type, is used in an example: its own, one of its type, whichever `impl` that stands
//!   in, or one in the same file. So one example may show what belongs together.
//! * Variants and fields are their type's affair.
//!
//! What must not compile is no example.

use super::{head, indent, public_sources};
use std::collections::BTreeMap;

/// Something public, and what its documentation shows.
struct Item {
    /// File and line.
    place: String,
    file: String,
    kind: &'static str,
    name: String,
    /// The type or trait that it belongs to.
    of: Option<String>,
    example: String,
}

/// The code blocks of a documentation comment that compile.
fn examples(documentation: &[&str]) -> String {
    let mut found = String::new();
    let mut inside = None;
    for line in documentation {
        let Some(fence) = line.trim_start().strip_prefix("```") else {
            if inside == Some(true) {
                found.extend([line, "\n"]);
            }
            continue;
        };
        inside = match inside {
            Some(_) => None,
            None => Some(["", "rust", "no_run"].contains(&fence.trim())),
        };
    }
    found
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// What kind of item a line begins, and its name; nothing for fields and uses.
fn begun(line: &str) -> Option<(&'static str, String)> {
    let mut words = line.split_whitespace().peekable();
    loop {
        let word = words.next()?;
        let next = words.peek()?;
        if matches!(word, "async" | "unsafe") || (word == "const" && *next == "fn") {
            continue;
        }
        let kind = ["fn", "struct", "enum", "trait", "const"].into_iter().find(|it| *it == word);
        return kind.map(|kind| (kind, identifier(next)));
    }
}

/// The type of an `impl` that is of no trait.
fn subject(head: &str) -> Option<String> {
    let rest = head.strip_prefix("impl").filter(|_| !head.contains(" for "))?;
    let mut depth = 0;
    let end = rest.find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        depth == 0
    })?;
    let name = identifier(rest[end..].trim_start_matches(['>', ' ']));
    (!name.is_empty()).then_some(name)
}

fn items(file: &str, text: &str) -> Vec<Item> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut found = Vec::new();
    let (mut documentation, mut hidden) = (Vec::new(), false);
    let (mut attribute, mut module) = (false, false);
    // The type or trait whose block this is, and whether everything in it is public.
    let mut inside: Option<(String, bool)> = None;
    for (at, line) in lines.iter().enumerate() {
        let (text, outermost) =
            (line.split(" // ").next().unwrap_or(line).trim(), indent(line) == 0);
        if attribute || text.starts_with("#[") {
            attribute = !text.ends_with(']');
            hidden |= text == "#[doc(hidden)]";
            continue;
        }
        if let Some(line) = text.strip_prefix("///") {
            documentation.push(line.strip_prefix(' ').unwrap_or(line));
            continue;
        }
        let (documented, is_hidden) =
            (std::mem::take(&mut documentation), std::mem::take(&mut hidden));
        if outermost && text.ends_with('{') && identifier(text) == "mod" {
            module = true;
        }
        if outermost && text.starts_with('}') {
            (inside, module) = (None, false);
        }
        if module || is_hidden {
            continue;
        }
        let place = format!("{file}:{}", at + 1);
        if outermost && text.starts_with("impl") {
            inside = subject(&head(&lines, at)).map(|of| (of, false));
            if let Some((of, _)) = &inside {
                // What is said of the whole block is said of its type.
                let (of, example) = (Some(of.clone()), examples(&documented));
                let file = file.to_owned();
                found.push(Item { place, file, kind: "impl", name: String::new(), of, example });
            }
            continue;
        }
        let of = inside.as_ref().map(|(of, _)| of.clone()).filter(|_| !outermost);
        let public = match (&inside, text.strip_prefix("pub ")) {
            (_, Some(rest)) => rest,
            (Some((_, true)), None) if indent(line) == 4 => text,
            _ => continue,
        };
        let Some((kind, name)) = begun(public) else { continue };
        if outermost && kind == "trait" {
            inside = Some((name.clone(), true));
        }
        let example = examples(&documented);
        found.push(Item { place, file: file.to_owned(), kind, name, of, example });
    }
    found
}

/// Whether an example uses `name`, as a method, through a path, or by giving a trait's function a body.
fn uses(example: &str, name: &str) -> bool {
    example.match_indices(name).any(|(at, _)| {
        let (before, after) = (&example[..at], &example[at + name.len()..]);
        let ends = !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        ends && [".", "::", "fn "].iter().any(|begin| before.ends_with(begin))
    })
}

/// Whether an example calls the function `name`.
fn calls(example: &str, name: &str) -> bool {
    let call = format!("{name}(");
    example.match_indices(&call).any(|(at, _)| {
        !example[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
    })
}

/// The items that no example shows.
fn unshown(items: &[Item]) -> Vec<String> {
    let (mut of_types, mut of_files) = (BTreeMap::new(), BTreeMap::new());
    for item in items {
        let subject = item.of.as_ref().unwrap_or(&item.name);
        *of_types.entry(subject).or_insert_with(String::new) += &item.example;
        *of_files.entry(&item.file).or_insert_with(String::new) += &item.example;
    }
    let is_shown = |item: &&Item| match (&item.of, item.kind) {
        (_, "impl") => true,
        (None, "fn") => calls(&item.example, &item.name),
        (None, _) => !item.example.is_empty(),
        (Some(of), _) => {
            [&of_types[of], &of_files[&item.file]].iter().any(|it| uses(it, &item.name))
        }
    };
    let unshown = items.iter().filter(|item| !is_shown(item));
    unshown
        .map(|Item { place, kind, name, of, .. }| {
            let of = of.as_ref().map(|of| format!("{of}::")).unwrap_or_default();
            format!("{place}: {kind} {of}{name}")
        })
        .collect()
}

#[test]
fn every_public_item_is_shown_in_an_example() {
    let items: Vec<Item> =
        public_sources().iter().flat_map(|(file, text)| items(file, text)).collect();
    assert!(items.len() > 300, "only {} items were found", items.len());
    let unshown = unshown(&items);
    assert!(unshown.is_empty(), "no example shows\n{}", unshown.join("\n"));
}

#[test]
fn an_item_without_an_example_is_found() {
    let text = r#"
/// A door.
///
/// ```
/// Door::new().open();
/// ```
#[must_use = "a door \
              is to be opened"]
#[repr(C)] // for those who look through it
pub struct Door<T>(T);

impl<T: Fn() + 'static> Door<T> {
    /// It is shown by its type.
    pub fn new() -> Self {}

    /// The word alone is not a use: `close` it, or `.close()`.
    pub const fn close(self) {}

    pub async fn open(&self) {}

    fn private(&self) {}
}

/// ```compile_fail
/// fn knock() {}
/// ```
pub trait Knock {
    fn knock(&self);
}

impl<T> Knock for Door<T> {
    fn knock(&self) {}
}

/// ```
/// reopen();
/// ```
pub fn open() {}

#[doc(hidden)]
pub struct Hidden;

mod inner {
    pub fn sealed() {}
}

/// ```no_run
/// let key = Key { teeth: 5 };
/// ```
pub struct Key {
    pub teeth: u8,
}
"#;
    let found = unshown(&items("src/door.rs", text));
    let expected = [
        "src/door.rs:17: fn Door::close",
        "src/door.rs:27: trait Knock",
        "src/door.rs:28: fn Knock::knock",
        "src/door.rs:38: fn open",
    ];
    assert_eq!(found, expected);
}

//! The public interfaces, item by item, held against `docs/api.txt` and `util/api.txt`, so that no change of them goes
//! unnoticed.
//!
//! After a change that is meant: `TICKWHEEL_WRITE_API=1 cargo test --test tidy`, and look at the difference.
//!
//! Read from the sources: whatever is `pub` can be reached, because the build refuses a `pub` that cannot
//! (`unreachable_pub`). Items under `cfg(feature = "__..")` or `doc(hidden)` are left out, and so is of the core what its
//! root does not export: they promise nothing.

use super::{Source, files_below, is_test_file, is_word, read, root, source, sources};
use std::collections::BTreeSet;

/// What users take apart or put together without leaving anything out: a call wins or loses; a timer has moved or is
/// gone. All else may grow.
const COMPLETE: [&str; 2] = ["Cancel", "Reschedule"];

/// Traits that users may implement; then the trait of a private module, and one that everything implements. All others
/// are sealed.
const OPEN: [&str; 3] = ["Clock", "Executor", "Recurring"];

/// Traits whose implementations users rely on; others are the crate's own.
const TRAITS: &str = "Add Clock Clone Copy Debug Default Display Drop Eq Error Executor From Hash Iterator Ord \
    PartialEq PartialOrd RefUnwindSafe Stream Sub UnwindSafe";

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn first_word(text: &str) -> &str {
    text.split(|letter| !is_word(letter)).next().unwrap_or("")
}

/// The head that begins at `lines[at]`, up to its body: formatted code ends it with a brace, a semicolon or, for
/// fields and variants, a comma.
fn head(lines: &[&str], at: usize) -> String {
    let mut head = String::new();
    for line in lines[at..].iter().map(|line| line.trim()) {
        if !head.is_empty() && !head.ends_with('(') && !line.starts_with([')', '>']) {
            head.push(' ');
        }
        head.push_str(line);
        // Arrows are no closing brackets.
        let arrows = head.matches("->").count() + head.matches("=>").count();
        let open =
            head.matches(['(', '<', '[']).count() + arrows > head.matches([')', '>', ']']).count();
        // The commas of a `where` end its lines, and not the head.
        let field = head.ends_with(',') && !open && !head.contains(" where ");
        if head.ends_with('{') || ((head.ends_with([';', '}']) || field) && !open) {
            break;
        }
    }
    let head = head
        .split(" { ")
        .next()
        .unwrap_or(&head)
        .trim_end_matches([' ', '{', '}', ';', ',']);
    // How an argument is bound is the function's own affair.
    head.replace(",)", ")")
        .replace(", mut ", ", ")
        .replace("(mut ", "(")
}

/// What the core's root exports.
fn exported() -> BTreeSet<String> {
    let root = read("core/src/lib.rs");
    let (_, exports) = root.split_once("\npub use ").expect("it exports something");
    let names = exports.split(|letter| !is_word(letter));
    let names = names.filter(|name| name.starts_with(char::is_uppercase));
    names.map(str::to_owned).collect()
}

/// The type that an item defines or an `impl` is for.
fn subject(text: &str) -> &str {
    if let Some(function) = text.strip_prefix("pub fn ") {
        return first_word(function);
    }
    let head = text.split(" where ").next().unwrap_or(text);
    let of = head.rsplit_once(" for ").map_or_else(
        || head.rsplit_once("> ").map_or(head, |(_, of)| of),
        |(_, of)| of,
    );
    let is_plain =
        |word: &&str| !["impl", "pub", "struct", "enum", "trait", "unsafe", ""].contains(word);
    of.split(|letter| !is_word(letter))
        .find(is_plain)
        .unwrap_or("")
}

/// What a file adds to the interface: items, and below them their members.
fn interface(source: &Source, types: &BTreeSet<String>) -> Vec<String> {
    let exported = source.path.starts_with("core/").then(exported);
    let lines: Vec<&str> = source.code().map(|(_, line)| line).collect();
    let mut found = Vec::new();
    // The depth to which everything is public, and the head of an `impl` that has shown nothing yet.
    let (mut all_to, mut header) = (0, None);
    // Whether the item at hand needs a feature that promises nothing.
    let mut is_hidden = false;
    for (at, line) in lines.iter().enumerate() {
        let (text, depth) = (line.trim_start(), indent(line));
        let is_item = depth == 0 && !text.starts_with(['}', ')', '#']);
        let above = lines[..at].iter().rev();
        let attributes = above.take_while(|line| line.starts_with("#["));
        if is_item {
            (all_to, header) = (0, None);
            is_hidden = attributes
                .clone()
                .any(|line| line.contains("feature = \"__") || line.contains("doc(hidden)"))
                || exported
                    .as_ref()
                    .is_some_and(|names| !names.contains(subject(&head(&lines, at))));
        }
        let above_member = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.trim().starts_with("#["));
        let is_hidden_member = above_member
            .map(|line| (indent(line), line.trim()))
            .any(|line| line == (depth, "#[doc(hidden)]"));
        if is_hidden || is_hidden_member {
            continue;
        }
        if is_item {
            if text.starts_with("impl") || text.starts_with("unsafe impl") {
                let head = head(&lines, at);
                if is_told(&head, types) {
                    found.push(head);
                } else {
                    header = Some(head);
                }
            } else if let Some(item) = text.strip_prefix("pub ") {
                // What is derived for it, and whether it may grow.
                let told =
                    |line: &&&str| line.contains("derive") || line.contains("non_exhaustive");
                let from = found.len();
                found.extend(attributes.filter(told).map(|line| (*line).to_owned()));
                found[from..].reverse();
                found.push(head(&lines, at));
                // The fields of variants are public, too.
                all_to = match first_word(item) {
                    "enum" => 8,
                    "trait" => 4,
                    _ => 0,
                };
            }
        } else if (1..=all_to).contains(&depth) && text.starts_with(char::is_alphabetic) {
            found.extend((text != "where").then(|| format!("{:depth$}{}", "", head(&lines, at))));
        } else if depth > 0 && text.starts_with("pub ") && !text.contains('$') {
            found.extend(header.take());
            found.push(format!("    {}", head(&lines, at)));
        }
    }
    found
}

/// Whether the head of an `impl` is of one of `TRAITS` for a public type.
fn is_told(head: &str, types: &BTreeSet<String>) -> bool {
    let Some((of, subject)) = head.rsplit_once(" for ") else {
        return false;
    };
    let of = of.trim_start_matches("unsafe ").trim_start_matches("impl");
    let of = if of.starts_with('<') {
        of.split_once("> ").map_or(of, |(_, of)| of)
    } else {
        of
    };
    let name = first_word(of.trim().rsplit("::").next().unwrap_or(of));
    types.contains(first_word(subject.trim_start_matches('&')))
        && TRAITS.split_whitespace().any(|it| it == name)
}

/// The interface of the files, and the names of its types that cannot grow and of its traits that are not sealed.
fn told(files: &[Source]) -> (String, BTreeSet<String>, BTreeSet<String>) {
    let mut types = exported();
    let all_count = |it: &&Source| !it.path.starts_with("core/");
    for (_, line) in files.iter().filter(all_count).flat_map(Source::code) {
        let kinds = ["pub struct ", "pub enum ", "pub union "];
        let name = kinds.iter().find_map(|kind| line.strip_prefix(kind));
        types.extend(name.map(|rest| first_word(rest).to_owned()));
    }
    let mut told = String::from("The public interface; `tests/tidy/api.rs` keeps this page.\n");
    let (mut complete, mut open) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let items = interface(file, &types);
        for (at, item) in items.iter().enumerate() {
            let next = items
                .get(at + 1)
                .and_then(|next| next.strip_prefix("    pub "));
            let has_fields = next.is_some_and(|it| it[first_word(it).len()..].starts_with(':'));
            let grows = at > 0 && items[at - 1].contains("non_exhaustive");
            if let Some(name) = item.strip_prefix("pub enum ").filter(|_| !grows) {
                complete.insert(first_word(name).to_owned());
            } else if let Some(name) = item.strip_prefix("pub struct ").filter(|_| !grows) {
                complete.extend(has_fields.then(|| first_word(name).to_owned()));
            } else if let Some(name) = item.strip_prefix("pub trait ") {
                open.extend((!name.contains("sealed::")).then(|| first_word(name).to_owned()));
            }
        }
        if !items.is_empty() {
            told += &format!("\n{}\n\n{}\n", file.path, items.join("\n"));
        }
    }
    (told, complete, open)
}

/// Holds what the files say against the page, or writes the page.
fn holds(page: &str, told: &str) {
    if std::env::var_os("TICKWHEEL_WRITE_API").is_some() {
        std::fs::write(root().join(page), told).unwrap();
    }
    let recorded = read(page);
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (recorded.lines().collect(), told.lines().collect());
    let (gone, come): (Vec<_>, Vec<_>) = (
        old.difference(&new).collect(),
        new.difference(&old).collect(),
    );
    assert!(
        recorded == told,
        "the interface that {page} has is another one; if that is meant, write it down:\n\
         TICKWHEEL_WRITE_API=1 cargo test --test tidy\n- {gone:#?}\n+ {come:#?}"
    );
}

#[test]
fn the_interface_is_what_docs_api_txt_says() {
    let is_public = |it: &Source| !it.path.starts_with("loom-tests/");
    let files: Vec<Source> = sources().into_iter().filter(is_public).collect();
    let (told, complete, open) = told(&files);
    holds("docs/api.txt", &told);
    assert!(
        complete.iter().eq(&COMPLETE),
        "not `non_exhaustive`: {complete:?}"
    );
    assert!(open.iter().eq(&OPEN), "not sealed: {open:?}");
}

/// The interface for C is the header itself: a test of that crate holds it against the code.
#[test]
fn the_companion_crates_interface_is_what_its_page_says() {
    let files = files_below("util/src").into_iter();
    let files: Vec<Source> = files
        .filter(|path| !is_test_file(path))
        .map(source)
        .collect();
    let (told, ..) = told(&files);
    holds("util/api.txt", &told);
}

/// Types that are public for the crate's own traits and cannot be named by users.
const UNNAMED: [&str; 2] = ["Poll", "TickRate"];

#[test]
fn the_auto_traits_of_every_public_type_are_pinned() {
    let (interface, pins) = (read("docs/api.txt"), read("tests/api/auto_traits.rs"));
    let pinned: BTreeSet<_> = pins.lines().map(|line| first_word(line.trim())).collect();
    let named = |line: &'_ str| {
        let name = ["pub struct ", "pub enum "]
            .iter()
            .find_map(|kind| line.strip_prefix(kind))?;
        Some(first_word(name).to_owned())
    };
    let missing: Vec<_> = interface
        .lines()
        .filter_map(named)
        .filter(|name| !pinned.contains(&**name) && !UNNAMED.contains(&&**name))
        .collect();
    assert!(
        missing.is_empty(),
        "pin their auto traits in tests/api/auto_traits.rs: {missing:?}"
    );
}

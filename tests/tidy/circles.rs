//! Files of one crate import each other in one direction: a circle can only be understood as a whole.

use super::{assert_none, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The files that each file imports. Folders' `mod.rs` only pass names on, and have no say.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Splits `a::{b, c::{d, e}}` into `a::b`, `a::c::d`, `a::c::e`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.trim().to_owned()];
    };
    let rest = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in rest.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        if letter == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(letter);
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| paths_of(part))
        .map(|part| format!("{}{part}", before.trim()))
        .collect()
}

/// The file that a path leads to, seen from a file.
fn file_of(path: &str, from: &str, files: &BTreeSet<String>) -> Option<String> {
    let mut names = path.split("::").map(str::trim).peekable();
    let mut at: Vec<&str> = from.split('/').collect();
    match names.next()? {
        "crate" => at.clear(),
        "self" => {}
        "super" => {
            at.pop();
            while names.next_if_eq(&"super").is_some() {
                at.pop();
            }
        }
        _ => return None,
    }
    let mut found = None;
    for name in names {
        at.push(name);
        let file = at.join("/");
        if files.contains(&file) {
            found = Some(file);
        }
    }
    found.filter(|file| file != from)
}

/// The imports of one crate, whose sources lie below `root`.
fn imports(root: &str) -> Imports {
    let sources = sources();
    let name = |path: &str| {
        let name = path.strip_prefix(root)?.strip_suffix(".rs")?;
        (!name.ends_with("/mod") && name != "lib").then(|| name.to_owned())
    };
    let files: BTreeSet<String> = sources.iter().filter_map(|it| name(&it.path)).collect();
    let mut imports = Imports::new();
    for source in &sources {
        let Some(file) = name(&source.path) else {
            continue;
        };
        let code: Vec<&str> = source.code().map(|(_, line)| line.trim()).collect();
        let text = code.join(" ");
        let uses = text.split(';').filter_map(|item| {
            let tree = item.rsplit_once("use ").map(|(_, tree)| tree)?;
            (tree.starts_with("crate") || tree.starts_with("super") || tree.starts_with("self"))
                .then_some(tree)
        });
        let found = uses
            .flat_map(paths_of)
            .filter_map(|path| file_of(&path, &file, &files));
        imports.insert(file.clone(), found.collect());
    }
    imports
}

/// The files that a file leads to, by any number of imports.
fn reached<'a>(from: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let (mut found, mut left) = (BTreeSet::new(), vec![from]);
    while let Some(file) = left.pop() {
        for next in &imports[file] {
            if found.insert(next.as_str()) {
                left.push(next);
            }
        }
    }
    found
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    for root in ["core/src/", "src/"] {
        let imports = imports(root);
        assert!(imports.len() > 10, "{root} has files");
        let leads_to: BTreeMap<&str, _> = imports
            .keys()
            .map(|file| (file.as_str(), reached(file, &imports)))
            .collect();
        let circles: BTreeSet<Vec<&str>> = leads_to
            .iter()
            .filter(|(file, reached)| reached.contains(*file))
            .map(|(file, reached)| {
                let back = reached.iter().filter(|it| leads_to[**it].contains(file));
                back.copied().collect()
            })
            .collect();
        let circles = circles
            .iter()
            .map(|files| format!("{} import each other in a circle", files.join(", ")));
        assert_none("circles of files", &circles.collect::<Vec<_>>());
    }
}

//! Links of pages and of doc comments into this repository lead to a file that exists, and to a heading of it.

use super::{assert_none, files_below, read, root};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The repository's own address, with which pages that stand elsewhere, as on docs.rs, name its files.
const ADDRESSES: [&str; 2] = [
    "https://github.com/tickwheel/tickwheel/blob/main/",
    "https://github.com/tickwheel/tickwheel/tree/main/",
];

/// Every Markdown file, as seen from the root.
pub(super) fn pages() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}")) {
            let path = entry.expect("it can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ignored = ["target", "artifacts", "coverage", "node_modules"];
            if path.is_dir() && !ignored.contains(&&*name) && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".md") {
                let path = path.strip_prefix(root()).expect("it is below the root");
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort();
    found
}

/// The lines of a page outside of its code blocks, with their numbers.
fn prose(page: &str) -> Vec<(usize, String)> {
    let (mut lines, mut is_code) = (Vec::new(), false);
    for (index, line) in read(page).lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push((index + 1, line.to_owned()));
        }
    }
    lines
}

/// Makes of a heading what GitHub makes of it: the name behind the `#` of a link.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter
            .is_alphanumeric()
            .then(|| letter.to_lowercase().next().unwrap_or(letter)),
    });
    letters.collect()
}

/// The names of a page's headings; the second one of the same text has a number.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(page) {
        let Some(heading) = line.strip_prefix('#') else {
            continue;
        };
        let name = anchor(heading.trim_start_matches('#'));
        let again = (1..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(again);
        let free = names.find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

/// What the links of a line lead to: `[text](here)`, `[name]: here`, `src="here"` and `srcset="here"`.
fn targets(line: &str) -> Vec<&str> {
    let mut targets: Vec<_> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect();
    for mark in ["src=\"", "srcset=\"", "href=\""] {
        let rests = line.split(mark).skip(1);
        targets.extend(rests.filter_map(|rest| rest.split('"').next()));
    }
    let text = line.trim_start_matches(['/', '!', ' ']);
    if let Some((_, target)) = text.split_once("]: ").filter(|_| text.starts_with('[')) {
        targets.push(target.trim());
    }
    targets
}

/// `folder/../file` without the detour.
pub(super) fn plain(path: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Says what is wrong with a link in `page`, if it leads into this repository and something is wrong.
fn complaint(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_rust = page.ends_with(".rs");
    let address = ADDRESSES.iter().find_map(|it| target.strip_prefix(it));
    let inside = match address {
        Some(path) => path.to_owned(),
        // Links of a doc comment are rustdoc's.
        None if is_rust || target.contains("://") || target.starts_with("mailto:") => return None,
        None if target.starts_with('#') => format!("{page}{target}"),
        None => format!("{folder}/{target}"),
    };
    let (path, heading) = inside
        .split_once('#')
        .map_or((&*inside, None), |(path, heading)| (path, Some(heading)));
    let path = plain(path);
    if !root().join(&path).exists() {
        return Some(format!("no {path}"));
    }
    let heading = heading.filter(|_| path.ends_with(".md"))?;
    (!anchors(&path).contains(heading)).then(|| format!("{path} has no heading #{heading}"))
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let sources = ["core/src", "src", "util/src"]
        .iter()
        .flat_map(|it| files_below(it));
    let (mut found, mut seen) = (Vec::new(), 0);
    for page in pages().into_iter().chain(sources) {
        for (number, line) in prose(&page) {
            for target in targets(&line) {
                seen += 1;
                let complaint = complaint(&page, target);
                found.extend(complaint.map(|it| format!("{page}:{number}: {it}")));
            }
        }
    }
    assert!(seen > 200, "only {seen} links were looked at");
    assert_none("links", &found);
}

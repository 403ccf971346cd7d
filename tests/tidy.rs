//! Style that a machine can check: where atomics and `unsafe` may be, what must be said beside them, which
//! folder may import which, how long a file may be, and that `docs/ORDERING.md` agrees with the code.
//!
//! Each failure names file, line and rule. Where a rule has exceptions they are listed here, and an
//! exception that is not needed any more is a failure, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[path = "tidy/columns.rs"]
mod columns;
#[path = "tidy/models.rs"]
mod models;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/words.rs"]
mod words;

/// The files that may contain `unsafe`, and why.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("src/engine/hold.rs", "engines lie behind pointers, and handles count themselves per thread"),
    ("src/engine/task.rs", "closures lie in a payload of fixed size"),
    ("src/futures/with_timeout.rs", "a future is pinned where it lies"),
    ("src/types/exclusive.rs", "an error is shared while its payload is not"),
    ("src/time/quick.rs", "the processor's counter is read"),
    ("src/engine/routing.rs", "places are zeroed memory"),
    ("src/inbox/desk.rs", "an open block is shared by its thread and the reader"),
    ("src/inbox/open.rs", "an open block is shared by its thread and the reader"),
    ("src/inbox/pool.rs", "boxes rest as pointers"),
    ("src/inbox/queue.rs", "blocks are linked by pointers and freed through the epoch"),
    ("src/inbox/reader.rs", "blocks are linked by pointers and freed through the epoch"),
    ("src/local/node.rs", "what a node carries is told by its word, without a tag"),
    (
        "src/node/magazine.rs",
        "magazines are zeroed memory, and a thread keeps its own one's address",
    ),
    ("src/node/segments.rs", "slots are zeroed memory behind pointers that never move"),
    (
        "src/node/cycle.rs",
        "what a periodic node carries is shared by its owner and its winner, part by part",
    ),
    ("src/node/exchange.rs", "a payload moves out and another in while the state word says so"),
    ("src/node/periodic.rs", "the owner's part of a cycle is used while the state word says busy"),
    ("src/node/regions.rs", "what is remembered of regions is zeroed memory"),
    ("src/node/record.rs", "what a node carries is told by its state, without a tag"),
    ("src/node/table.rs", "payloads move in and out by the state word's decision"),
    ("src/node/trim.rs", "nodes that nobody else has forget what they were"),
    ("src/shard/limit.rs", "a purse's holder keeps its address"),
    ("src/shard/purse.rs", "purses are zeroed memory, and their holders keep their addresses"),
    ("src/shard/thread_state.rs", "thread states are zeroed memory"),
    ("src/sync/boxed.rs", "a box that the allocator may refuse is made of its memory"),
    ("src/sync/pages.rs", "pages are mapped, given back and unmapped"),
    ("src/sync/prefetch.rs", "the processor is told what will be needed"),
    ("src/sync/epoch.rs", "retired blocks are freed here"),
    ("src/sync/wiped.rs", "a page is mapped that a fork finds zeroed"),
    ("src/sync/epoch/stand_in.rs", "retired blocks are freed here"),
];

/// Files above the limit, and what keeps them in one piece.
const LONG_FILES: &[(&str, usize, &str)] = &[];

/// Lines in a file.
const LONGEST: usize = 400;

/// What a folder or file may import of the crate; everything above it is missing from its list.
const LAYERS: &[(&str, &[&str])] = &[
    ("src/contain.rs", &[]),
    ("src/sync/", &["contain"]),
    ("src/time/", &["contain", "sync"]),
    ("src/types/", &["sync", "time"]),
    ("src/state/", &["sync", "types"]),
    ("src/wheel/", &["sync", "types"]),
    ("src/drive/", &["types", "wheel"]),
    ("src/pull.rs", &["drive", "time", "types"]),
    ("src/local/", &["contain", "drive", "pull", "state", "sync", "time", "types", "wheel"]),
    ("src/node/", &["contain", "drive", "state", "sync", "time", "types"]),
    ("src/inbox/", &["sync"]),
    ("src/park/", &["sync"]),
    (
        "src/shard/",
        &["contain", "drive", "inbox", "node", "park", "state", "sync", "time", "types", "wheel"],
    ),
    (
        "src/event_loop/",
        &[
            "contain", "drive", "engine", "node", "pull", "shard", "state", "sync", "time",
            "types", "wheel",
        ],
    ),
    ("src/futures/", &["contain", "engine", "event_loop", "local", "time", "types"]),
    (
        "src/engine/",
        &["contain", "drive", "node", "park", "shard", "state", "sync", "time", "types", "wheel"],
    ),
];

/// What must not be named in a folder, beyond imports of the crate.
const BANNED: &[(&str, &[&str])] = &[
    ("src/wheel/", &["std::", "core::time", "Instant", "unsafe"]),
    ("src/inbox/", &["std::thread", "std::time", "Instant", "timer:"]),
    ("src/node/", &["std::thread", "std::time", "Instant"]),
    ("src/shard/", &["std::thread", "Instant", "SystemTime", ".sleep("]),
    ("src/drive/", &["std::", "core::time", "Instant"]),
];

/// How far above an atomic access its note may begin.
const NOTE_REACH: usize = 14;

struct Source {
    path: String,
    /// Without test modules.
    lines: Vec<String>,
    all_lines: usize,
}

impl Source {
    /// The lines that are code, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().filter_map(|(index, line)| {
            let line = line.trim_start();
            (!line.starts_with("//")).then(|| (index, line.split(" // ").next().unwrap_or(line)))
        })
    }

    /// The comment that ends above `index` or in its line, if one is near enough and contains `word`.
    fn note(&self, index: usize, word: &str) -> Option<String> {
        let from = index.saturating_sub(NOTE_REACH);
        let is_note = |line: &String| line.trim_start().starts_with("//") && line.contains(word);
        let start = (from..=index).rev().find(|&above| is_note(&self.lines[above]))?;
        let block =
            self.lines[start..].iter().take_while(|line| line.trim_start().starts_with("//"));
        Some(block.cloned().collect::<Vec<_>>().join(" "))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below a folder, in order.
fn files_below(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    let relative =
        |path: PathBuf| path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
    let mut found: Vec<String> = found.into_iter().map(relative).collect();
    found.sort();
    assert!(!found.is_empty(), "{folder} is empty");
    found
}

/// The library's sources without their tests.
fn sources() -> Vec<Source> {
    let is_test = |path: &String| path.ends_with("/tests.rs") || path.contains("/tests/");
    files_below("src").into_iter().filter(|path| !is_test(path)).map(source).collect()
}

fn source(path: String) -> Source {
    let text = read(&path);
    let mut lines: Vec<String> = Vec::new();
    let mut all = text.lines().peekable();
    while let Some(line) = all.next() {
        let for_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        match all.peek() {
            // A module of tests is the rest of its file.
            Some(next) if for_tests && next.starts_with("mod ") && next.ends_with('{') => break,
            Some(next) if for_tests && next.ends_with(';') => drop(all.next()),
            _ => lines.push(line.to_owned()),
        }
    }
    Source { all_lines: text.lines().count(), path, lines }
}

/// Fails with all findings at once.
fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}\n", findings.join("\n  "));
}

#[test]
fn only_sync_names_atomics_and_loom() {
    let names = ["std::sync::atomic", "core::sync::atomic", "loom::"];
    let mut found = Vec::new();
    for source in sources().iter().filter(|source| !source.path.starts_with("src/sync/")) {
        for (index, line) in source.code() {
            for name in names.iter().filter(|name| line.contains(**name)) {
                found.push(format!("{}:{}: {name}", source.path, index + 1));
            }
        }
    }
    assert_none("use crate::sync, or loom does not see it", &found);
}

#[test]
fn unsafe_is_in_named_files_and_gives_its_reason() {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for source in &sources() {
        let is_unsafe = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
        };
        for (index, line) in source.code().filter(|(_, line)| is_unsafe(line)) {
            seen.insert(source.path.clone());
            let place = format!("{}:{}", source.path, index + 1);
            if !UNSAFE_FILES.iter().any(|(path, _)| *path == source.path) {
                found.push(format!("{place}: unsafe outside of the named files"));
            }
            let declares = line.contains("unsafe fn") || line.contains("unsafe trait");
            let word = if declares { "# Safety" } else { "SAFETY:" };
            if !line.contains(": unsafe fn(") && source.note(index, word).is_none() {
                found.push(format!("{place}: no `{word}` above"));
            }
        }
    }
    for (path, _) in UNSAFE_FILES.iter().filter(|(path, _)| !seen.contains(*path)) {
        found.push(format!("{path} is listed and has no unsafe code any more"));
    }
    assert_none("unsafe", &found);
}

#[test]
fn every_atomic_access_says_why_its_ordering_is_enough() {
    let mut found = Vec::new();
    for source in &sources() {
        // The switch itself, a facade that passes the caller's ordering on, and what makes one weaker.
        if ["src/sync/mod.rs", "src/sync/watched.rs", "src/sync/weakened.rs"]
            .contains(&source.path.as_str())
        {
            continue;
        }
        for (index, line) in source.code().filter(|(_, line)| line.contains("Ordering::")) {
            if line.starts_with("use ") || line.contains("cmp::Ordering") {
                continue;
            }
            let place = format!("{}:{}", source.path, index + 1);
            match source.note(index, "ORDERING:") {
                None => {
                    found.push(format!("{place}: no ORDERING note within {NOTE_REACH} lines above"))
                }
                Some(note) => {
                    let strong = ["Acquire", "Release", "AcqRel", "SeqCst"];
                    let strong = strong.iter().any(|o| line.contains(&format!("Ordering::{o}")));
                    if strong && numbers_in(&note).is_empty() {
                        found.push(format!("{place}: the note cites no pair of docs/ORDERING.md"));
                    }
                }
            }
        }
    }
    assert_none("atomic accesses", &found);
}

/// The numbers of pairs (`P1`, `F2`) that a text cites.
fn numbers_in(text: &str) -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    for part in text.split('[').skip(1) {
        if let Some((number, _)) = part.split_once(']') {
            let digits = number.strip_prefix(['P', 'F']).unwrap_or("");
            if !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_digit()) {
                numbers.insert(number.to_owned());
            }
        }
    }
    numbers
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What `docs/ORDERING.md` says about one pair.
#[derive(Default)]
struct Pair {
    files: BTreeSet<String>,
    text: String,
    ends: usize,
}

fn pairs() -> BTreeMap<String, Pair> {
    let document = read("docs/ORDERING.md");
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for section in document.split("\n### ").skip(1) {
        let number = numbers_in(section.lines().next().unwrap_or("")).pop_first();
        let number = number.unwrap_or_else(|| panic!("a section without a number: {section}"));
        let section = section.split("\n## ").next().unwrap_or(section);
        let mut pair = Pair { text: section.to_owned(), ..Pair::default() };
        pair.files
            .extend(quoted(section).filter(|name| name.starts_with("src/")).map(str::to_owned));
        let is_end = |line: &&str| {
            ["- Release:", "- Acquire:", "- Fence:"].iter().any(|end| line.starts_with(end))
        };
        pair.ends = section.lines().filter(is_end).count();
        assert!(pairs.insert(number.clone(), pair).is_none(), "{number} is there twice");
    }
    pairs
}

#[test]
fn the_list_of_pairs_and_the_code_cite_each_other() {
    let mut cited: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for source in &sources() {
        for line in source.lines.iter().filter(|line| line.trim_start().starts_with("//")) {
            for number in numbers_in(line) {
                *cited.entry(number).or_default().entry(source.path.clone()).or_default() += 1;
            }
        }
    }
    let mut found = Vec::new();
    let pairs = pairs();
    for (number, places) in &cited {
        match pairs.get(number) {
            None => found.push(format!("[{number}] is cited in {places:?} and not in the list")),
            Some(pair) => {
                for file in places.keys().filter(|file| !pair.files.contains(*file)) {
                    found.push(format!(
                        "[{number}] is cited in {file}, which the list does not name"
                    ));
                }
            }
        }
    }
    for (number, pair) in &pairs {
        let places = cited.get(number).cloned().unwrap_or_default();
        for file in pair.files.iter().filter(|file| !places.contains_key(*file)) {
            found.push(format!("[{number}] names {file}, which does not cite it"));
        }
        if pair.ends != 2 || places.values().sum::<usize>() < 2 {
            found.push(format!("[{number}] does not have two ends"));
        }
    }
    assert_none("docs/ORDERING.md", &found);
}

#[test]
fn the_list_of_pairs_names_what_exists() {
    let mut found = Vec::new();
    let models: String = files_below("loom-tests/models").iter().map(|path| read(path)).collect();
    for (number, pair) in &pairs() {
        let mut file = String::new();
        for name in quoted(&pair.text) {
            if name.starts_with("src/") && name.ends_with(".rs") {
                if !root().join(name).exists() {
                    found.push(format!("[{number}] {name} does not exist"));
                } else {
                    file = read(name);
                }
            } else if let Some((_, scenario)) = name.split_once("::") {
                if !models.contains(&format!("fn {scenario}()")) {
                    found.push(format!("[{number}] no scenario {name}"));
                }
            } else if name.contains('-') {
                if !root().join(format!("loom-tests/seeded-bugs/{name}.patch")).exists() {
                    found.push(format!("[{number}] no seeded bug {name}"));
                }
            } else if is_function(name) && !file.contains(&format!("fn {name}")) {
                // Fields and orderings are quoted as well; they must be in the file, too.
                if !file.contains(name) {
                    found.push(format!("[{number}] {name} is not in the file named before it"));
                }
            }
        }
    }
    assert_none("docs/ORDERING.md", &found);
}

fn is_function(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

#[test]
fn every_seeded_bug_applies_to_the_code() {
    let patches = std::fs::read_dir(root().join("loom-tests/seeded-bugs")).unwrap();
    let mut found = Vec::new();
    for patch in patches.map(|entry| entry.unwrap().path()) {
        let mut git = std::process::Command::new("git");
        git.current_dir(root()).args(["apply", "--check"]).arg(&patch);
        // Outside of a repository `git apply` works as well; without git the script finds out.
        let Ok(checked) = git.output() else { return };
        if !checked.status.success() {
            let said = String::from_utf8_lossy(&checked.stderr).into_owned();
            found.push(format!("{}: {}", patch.display(), said.trim()));
        }
    }
    assert_none("seeded bugs that do not apply any more", &found);
}

#[test]
fn imports_point_down() {
    let mut found = Vec::new();
    for source in &sources() {
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| source.path.starts_with(layer))
        else {
            continue;
        };
        for (index, line) in source.code() {
            for used in line.split("crate::").skip(1) {
                let end =
                    used.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(used.len());
                let module = &used[..end];
                let inside = source.path.starts_with(&format!("src/{module}"));
                if !module.is_empty() && !inside && !allowed.contains(&module) {
                    found.push(format!("{}:{}: crate::{module}", source.path, index + 1));
                }
            }
        }
    }
    assert_none("imports point down only, see LAYERS", &found);
}

/// The files of one crate by the path of their module; the crate's root has the empty path.
fn modules(folder: &str) -> BTreeMap<Vec<String>, Source> {
    let is_test = |path: &String| path.ends_with("/tests.rs") || path.contains("/tests/");
    let files = files_below(folder).into_iter().filter(|path| !is_test(path));
    let named = files.map(|path| {
        let inner = path[folder.len() + 1..].trim_end_matches(".rs");
        let inner = inner.trim_end_matches("/mod");
        // The root of a binary has no modules of its own in this workspace.
        let is_root = inner == "lib";
        let name = inner.split('/').filter(|_| !is_root).map(str::to_owned).collect();
        (name, source(path))
    });
    named.collect()
}

/// Whether a character may be part of a path without braces.
fn in_path(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == ':'
}

/// The paths of a tree such as `a::{b, c::{d, e}}` at the begin of `text`.
fn paths_of_tree(text: &str) -> Vec<String> {
    let end = text.find(|letter| !in_path(letter)).unwrap_or(text.len());
    let (stem, rest) = text.split_at(end);
    if !stem.ends_with("::") || !rest.starts_with('{') {
        return vec![stem.to_owned()];
    }
    let (mut paths, mut depth, mut start) = (Vec::new(), 0, 1);
    for (at, letter) in rest.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && letter == ',') {
            let part = rest[start..at].trim();
            let parts = if part.is_empty() { Vec::new() } else { paths_of_tree(part) };
            paths.extend(parts.into_iter().map(|part| format!("{stem}{part}")));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    paths
}

/// The paths within the crate that a file names, from the crate's root on.
fn named_paths(module: &[String], source: &Source) -> Vec<Vec<String>> {
    let mut code = String::new();
    let mut inline_module = false;
    for (index, line) in source.code() {
        let outermost = !line.is_empty() && source.lines[index].len() == line.len();
        let head = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        inline_module = if outermost { head.starts_with("mod ") } else { inline_module };
        // What is above a module inside of this file is this file.
        let line = if inline_module { line.replace("super::", "self::") } else { line.to_owned() };
        code.extend([line.as_str(), "\n"]);
    }
    let mut found = Vec::new();
    for (at, _) in code.match_indices(|letter: char| letter.is_alphabetic()) {
        if code[..at].ends_with(|letter: char| in_path(letter)) {
            continue;
        }
        let rest = &code[at..];
        let in_crate = ["crate::", "super::", "self::"].iter().any(|begin| rest.starts_with(begin));
        // `use child::Name` in the file of a folder names a module without saying where it is.
        let in_use = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
        let line = code[..at].rsplit('\n').next().unwrap_or("");
        if !in_crate && !in_use.contains(&line) {
            continue;
        }
        for path in paths_of_tree(rest) {
            let mut base = module.to_vec();
            let mut names = path.split("::").filter(|name| !name.is_empty()).peekable();
            while let Some(step) = names.next_if(|name| ["crate", "super", "self"].contains(name)) {
                match step {
                    "crate" => base.clear(),
                    "super" => drop(base.pop()),
                    _ => {}
                }
            }
            found.push(base.into_iter().chain(names.map(str::to_owned)).collect());
        }
    }
    found
}

/// Which file imports which: by path, the paths of the others. A name that a file only passes on
/// (`pub use child::Name`) is imported from where it comes from.
fn imports(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let modules = modules(folder);
    let named: BTreeMap<_, _> =
        modules.iter().map(|(module, source)| (module, named_paths(module, source))).collect();
    let origin = |path: &Vec<String>| {
        let mut path = path.clone();
        // No name is passed on more often than there are files.
        for _ in 0..modules.len() {
            let module = (0..=path.len()).rev().map(|length| path[..length].to_vec());
            let module = module.into_iter().find(|module| modules.contains_key(module))?;
            let name = path.get(module.len());
            let passed_on = |other: &&Vec<String>| {
                other.len() > module.len() + 1 && name.is_some() && other.last() == name
            };
            match named[&module].iter().filter(|other| other.starts_with(&module)).find(passed_on) {
                Some(other) => path = other.clone(),
                None => return Some(modules[&module].path.clone()),
            }
        }
        None
    };
    let edges = modules.iter().map(|(module, source)| {
        let others = named[module].iter().filter_map(origin).filter(|file| *file != source.path);
        (source.path.clone(), others.collect())
    });
    edges.collect()
}

/// The groups of files that import each other, directly or by way of others.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            for next in imports.get(file).into_iter().flatten() {
                if reached.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|file| (file, reached(file))).collect();
    let mut groups: Vec<BTreeSet<String>> = Vec::new();
    for (file, reached) in all.iter().filter(|(file, reached)| reached.contains(**file)) {
        if !groups.iter().any(|group| group.contains(*file)) {
            let back = reached.iter().filter(|other| all[other].contains(*file));
            groups.push(back.cloned().collect());
        }
    }
    groups
}

#[test]
fn no_crate_has_files_that_import_each_other_in_a_circle() {
    let mut found = Vec::new();
    for folder in ["src", "adapters/src", "loadtest/src", "benches/src", "delayed-jobs/src"] {
        let imports = imports(folder);
        assert!(imports.values().any(|of| !of.is_empty()), "{folder}: no import was found");
        for circle in circles(&imports) {
            for file in &circle {
                let others = imports[file].intersection(&circle).cloned().collect::<Vec<_>>();
                found.push(format!("{file} imports {}", others.join(", ")));
            }
        }
    }
    assert_none("imports have one direction", &found);
}

#[test]
fn circles_are_found_however_a_path_is_written() {
    let tree = paths_of_tree("crate::{a, b::{self, c as d}, e::*};");
    assert_eq!(tree, ["crate::a", "crate::b::self", "crate::b::c", "crate::e::"]);
    let lines = [
        "pub(crate) use child::Name;",
        "use crate::{",
        "    x::Y, // why",
        "    z,",
        "};",
        "fn f() { super::sibling::g(); std::mem::take(); }",
        "// use crate::comment;",
        "pub(crate) mod inner {",
        "",
        "    use super::sibling;",
        "}",
    ];
    let lines = lines.map(str::to_owned).to_vec();
    let source = Source { path: String::new(), all_lines: lines.len(), lines };
    let paths = named_paths(&["a".to_owned(), "b".to_owned()], &source);
    let paths: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["a::b::child::Name", "x::Y", "z", "a::sibling::g", "a::b::sibling"]);
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("e", "f")];
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    let circle: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
    assert_eq!(circles(&imports), [circle]);
}

#[test]
fn folders_name_nothing_that_is_banned_there() {
    let mut found = Vec::new();
    for source in &sources() {
        for (_, banned) in BANNED.iter().filter(|(folder, _)| source.path.starts_with(folder)) {
            for (index, line) in source.code() {
                for name in banned.iter().filter(|name| line.contains(**name)) {
                    found.push(format!("{}:{}: {name}", source.path, index + 1));
                }
            }
        }
    }
    assert_none("see BANNED", &found);
}

#[test]
fn files_are_not_too_long() {
    let mut found = Vec::new();
    let mut check = |path: &str, lines: usize| {
        let exception = LONG_FILES.iter().find(|(long, ..)| *long == path);
        let limit = exception.map_or(LONGEST, |(_, limit, _)| *limit);
        if lines > limit {
            found.push(format!("{path}: {lines} lines, {limit} are allowed"));
        } else if exception.is_some() && lines <= LONGEST {
            found.push(format!("{path}: {lines} lines, needs no exception any more"));
        }
    };
    for path in files_below("src") {
        let source = source(path);
        check(&source.path, source.all_lines);
    }
    for path in ["loom-tests", "delayed-jobs"].into_iter().flat_map(files_below) {
        check(&path, read(&path).lines().count());
    }
    assert_none("long files", &found);
}

#[test]
fn every_module_begins_with_its_charter() {
    let mut found = String::new();
    for folder in ["src", "tests", "adapters", "loom-tests", "loadtest/src", "delayed-jobs"] {
        for path in files_below(folder) {
            if !read(&path).starts_with("//!") {
                let _ = writeln!(found, "{path}");
            }
        }
    }
    assert!(found.is_empty(), "these begin without a `//!` head:\n{found}");
}

//! Checks style by machine: where atomics and `unsafe` may be, what must be said beside them, which folder may import
//! which, the public interface, and that the pages agree with the code. Counts are not checked.
//!
//! Each failure names file, line and rule. Where a rule has exceptions they are listed here, and an
//! exception that is not needed any more is a failure, too.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

#[path = "tidy/api.rs"]
mod api;
#[path = "tidy/blocks.rs"]
mod blocks;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/defaults.rs"]
mod defaults;
#[path = "tidy/examples.rs"]
mod examples;
#[path = "tidy/figures.rs"]
mod figures;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/names.rs"]
mod names;

/// The files that may contain `unsafe`, and why.
const UNSAFE_FILES: &[(&str, &str)] = &[
    (
        "src/engine/hold.rs",
        "engines lie behind pointers, and handles count themselves per thread",
    ),
    (
        "src/engine/task.rs",
        "closures lie in a payload of fixed size",
    ),
    ("src/futures/timeout.rs", "a future is pinned where it lies"),
    (
        "core/src/sync/exclusive.rs",
        "an error is shared while its payload is not",
    ),
    ("core/src/time/quick.rs", "the processor's counter is read"),
    ("src/engine/routing.rs", "places are zeroed memory"),
    (
        "src/inbox/writer.rs",
        "an open block is shared by its thread and the reader",
    ),
    (
        "src/inbox/rest.rs",
        "blocks lie in a stack of pointers and are freed through the epoch",
    ),
    ("core/src/sync/piece.rs", "memory past the allocator"),
    ("src/inbox/pool.rs", "boxes rest as pointers"),
    (
        "src/inbox/block.rs",
        "the pages of a block that is read go back to the system",
    ),
    (
        "src/inbox/queue.rs",
        "blocks are linked by pointers and freed through the epoch",
    ),
    ("src/sync/epoch.rs", "retired blocks are freed here"),
    (
        "loom-tests/support/stand_in.rs",
        "retired blocks are freed here",
    ),
    (
        "core/src/local/node.rs",
        "what a node carries is told by its word, without a tag",
    ),
    (
        "src/node/magazine.rs",
        "magazines are zeroed memory, and a thread keeps its own one's address",
    ),
    (
        "src/node/regions.rs",
        "zero bytes are a region that is in no stack",
    ),
    (
        "src/sync/segments.rs",
        "slots are zeroed memory behind pointers that never move",
    ),
    (
        "src/node/periodic.rs",
        "a payload is cloned while the state word says that the owner has claimed it",
    ),
    (
        "src/node/offer.rs",
        "a payload is moved from where its caller has it into its node",
    ),
    (
        "src/node/record.rs",
        "what a node carries is told by its state, without a tag",
    ),
    (
        "src/node/table.rs",
        "payloads move in and out by the state word's decision",
    ),
    (
        "src/node/trim.rs",
        "nodes that nobody else has forget what they were",
    ),
    ("src/shard/handle.rs", "thread states are zeroed memory"),
    (
        "src/shard/way.rs",
        "a thread keeps the addresses of a shard and its part of it",
    ),
    (
        "src/engine/inner.rs",
        "a way leads to the engine's own shards",
    ),
    (
        "core/src/sync/boxed.rs",
        "a box that the allocator may refuse is made of its memory",
    ),
    (
        "core/src/sync/pages.rs",
        "pages are mapped, given back and unmapped",
    ),
    (
        "core/src/sync/prefetch.rs",
        "the processor is told what will be needed",
    ),
    ("src/sync/forks.rs", "a handler of forks is registered"),
    ("src/sync/signals.rs", "masks of signals are the system's"),
    (
        "core/src/sync/system.rs",
        "the system is called through libc",
    ),
    ("src/sync/system.rs", "the system is called through libc"),
];

/// The floors of what threads share: a folder or file may import what lies on the floors before its own. The core is a
/// crate of its own, which the compiler keeps below all of them, with floors of its own.
const FLOORS: &[&[&str]] = &[
    &["sync"],
    &["inbox", "park", "state", "stats"],
    &["node"],
    &["shard"],
    &["engine"],
    &["event_loop"],
    &["futures"],
];

/// The floors of the core.
const CORE_FLOORS: &[&[&str]] = &[
    &["contain", "sync"],
    &["time"],
    &["types"],
    &["state", "wheel"],
    &["local"],
];

/// What must not be named in a folder, beyond imports of the crate, and the folder inside that may name it.
const BANNED: &[(&str, &str, &[&str])] = &[
    // Loom does not see what `crate::sync` does not show it.
    (
        "src/",
        "src/sync/",
        &["std::sync::atomic", "core::sync::atomic", "loom::"],
    ),
    (
        "core/src/wheel/",
        "none",
        &["std::", "core::time", "Instant", "unsafe"],
    ),
    (
        "src/inbox/",
        "none",
        &["std::thread", "std::time", "Instant", "timer:"],
    ),
    (
        "src/node/",
        "none",
        &["std::thread", "std::time", "Instant"],
    ),
    (
        "src/shard/",
        "none",
        &["std::thread", "Instant", "SystemTime", ".sleep("],
    ),
];

/// How far above an atomic access its note may begin.
const NOTE_REACH: usize = 14;

struct Source {
    path: String,
    /// Without test modules.
    lines: Vec<String>,
}

impl Source {
    /// The lines that are code, with their numbers, without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let lines = self
            .lines
            .iter()
            .enumerate()
            .filter(move |(_, line)| code(line));
        lines.map(|(index, line)| (index, line.split(" // ").next().unwrap_or(line)))
    }

    /// The comment that ends above `index` or in its line, if one is near enough and contains `word`.
    fn note(&self, index: usize, word: &str) -> Option<String> {
        let from = index.saturating_sub(NOTE_REACH);
        let is_note = |line: &String| line.trim_start().starts_with("//") && line.contains(word);
        let start = (from..=index)
            .rev()
            .find(|&above| is_note(&self.lines[above]))?;
        let block = self.lines[start..]
            .iter()
            .take_while(|line| line.trim_start().starts_with("//"));
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

/// Every Rust file below a folder, in order. Left out is what is built or found, not written.
fn files_below(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let ignored = ["target", "artifacts", "coverage", "node_modules"];
            if path.is_dir() && !ignored.contains(&&*name) && !name.starts_with('.') {
                walk(&path, found);
            } else if path.is_file() && name.ends_with(".rs") {
                let path = path.strip_prefix(root()).unwrap().to_string_lossy();
                found.push(path.replace('\\', "/"));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "{folder} is empty");
    found
}

/// Whether a path belongs to loom's side of the library.
fn is_looms(path: &str) -> bool {
    path.starts_with("loom-tests/support/")
}

fn is_source(path: &str) -> bool {
    path.starts_with("src/") || path.starts_with("core/src/") || is_looms(path)
}

/// Whether a file below `src` holds nothing but unit tests.
fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The library's sources without their tests, and loom's side of them.
fn sources() -> Vec<Source> {
    let library = ["core/src", "src"]
        .into_iter()
        .flat_map(files_below)
        .filter(|path| !is_test_file(path));
    library
        .chain(files_below("loom-tests/support"))
        .map(source)
        .collect()
}

fn source(path: String) -> Source {
    let text = read(&path);
    let mut lines = Vec::new();
    let mut all = text.lines();
    while let Some(line) = all.next() {
        if line.starts_with("#[cfg(test") || line.starts_with("#[cfg(all(test") {
            // A module of tests is the rest of its file; what else is for tests begins in one line.
            let item = all.find(|line| !line.starts_with('#')).unwrap_or("");
            if item.trim_start_matches("pub(crate) ").starts_with("mod ") && item.ends_with('{') {
                break;
            }
        } else {
            lines.push(line.to_owned());
        }
    }
    Source { path, lines }
}

/// Fails with all findings at once.
fn assert_none(rule: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{rule}:\n  {}\n",
        findings.join("\n  ")
    );
}

#[test]
fn unsafe_is_in_named_files_and_gives_its_reason() {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for source in &sources() {
        let is_unsafe = |line: &str| line.split(|c| !is_word(c)).any(|word| word == "unsafe");
        for (index, line) in source.code().filter(|(_, line)| is_unsafe(line)) {
            seen.insert(source.path.clone());
            let place = format!("{}:{}", source.path, index + 1);
            if !UNSAFE_FILES.iter().any(|(path, _)| *path == source.path) {
                found.push(format!("{place}: unsafe outside of the named files"));
            }
            let declares = line.contains("unsafe fn") || line.contains("unsafe trait");
            let word = if declares { "# Safety" } else { "SAFETY:" };
            if !line.contains("unsafe fn(") && source.note(index, word).is_none() {
                found.push(format!("{place}: no `{word}` above"));
            }
        }
    }
    for (path, _) in UNSAFE_FILES
        .iter()
        .filter(|(path, _)| !seen.contains(*path))
    {
        found.push(format!("{path} is listed and has no unsafe code any more"));
    }
    assert_none("unsafe", &found);
}

#[test]
fn every_atomic_access_says_why_its_ordering_is_enough() {
    let mut found = Vec::new();
    for source in &sources() {
        // The switch itself, a facade that passes the caller's ordering on, and what makes one weaker.
        if [
            "src/sync/mod.rs",
            "loom-tests/support/watched.rs",
            "loom-tests/support/weakened.rs",
        ]
        .contains(&source.path.as_str())
        {
            continue;
        }
        for (index, line) in source
            .code()
            .filter(|(_, line)| line.contains("Ordering::"))
        {
            if line.starts_with("use ") || line.contains("cmp::Ordering") {
                continue;
            }
            let place = format!("{}:{}", source.path, index + 1);
            match source.note(index, "ORDERING:") {
                None => found.push(format!(
                    "{place}: no ORDERING note within {NOTE_REACH} lines above"
                )),
                Some(note) => {
                    let strong = ["Acquire", "Release", "AcqRel", "SeqCst"];
                    let strong = strong
                        .iter()
                        .any(|o| line.contains(&format!("Ordering::{o}")));
                    if strong && numbers_in(&note).is_empty() {
                        found.push(format!(
                            "{place}: the note cites no pair of docs/ORDERING.md"
                        ));
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
        let mut pair = Pair {
            text: section.to_owned(),
            ..Pair::default()
        };
        pair.files.extend(
            quoted(section)
                .filter(|name| is_source(name))
                .map(str::to_owned),
        );
        let is_end = |line: &&str| {
            ["- Release:", "- Acquire:", "- Fence:"]
                .iter()
                .any(|end| line.starts_with(end))
        };
        pair.ends = section.lines().filter(is_end).count();
        assert!(
            pairs.insert(number.clone(), pair).is_none(),
            "{number} is there twice"
        );
    }
    pairs
}

#[test]
fn the_list_of_pairs_and_the_code_cite_each_other() {
    let mut cited: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for source in &sources() {
        for line in source
            .lines
            .iter()
            .filter(|line| line.trim_start().starts_with("//"))
        {
            for number in numbers_in(line) {
                *cited
                    .entry(number)
                    .or_default()
                    .entry(source.path.clone())
                    .or_default() += 1;
            }
        }
    }
    let mut found = Vec::new();
    let pairs = pairs();
    for (number, places) in &cited {
        match pairs.get(number) {
            None => found.push(format!(
                "[{number}] is cited in {places:?} and not in the list"
            )),
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
    let models: String = files_below("loom-tests/models")
        .iter()
        .map(|path| read(path))
        .collect();
    for (number, pair) in &pairs() {
        let mut file = String::new();
        for name in quoted(&pair.text) {
            if is_source(name) && name.ends_with(".rs") {
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
                if !root()
                    .join(format!("loom-tests/seeded-bugs/{name}.patch"))
                    .exists()
                {
                    found.push(format!("[{number}] no seeded bug {name}"));
                }
            } else if is_function(name) && !file.contains(&format!("fn {name}")) {
                // Fields and orderings are quoted as well; they must be in the file, too.
                if !file.contains(name) {
                    found.push(format!(
                        "[{number}] {name} is not in the file named before it"
                    ));
                }
            }
        }
    }
    assert_none("docs/ORDERING.md", &found);
}

fn is_function(name: &str) -> bool {
    name.chars()
        .all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

/// `loom-tests/checks.sh` drops each check at one place, after the earlier rows have changed theirs.
#[test]
fn each_row_of_dropped_checks_applies_once() {
    let rows = read("loom-tests/checks.tsv");
    let (mut found, mut texts) = (Vec::new(), HashMap::new());
    for (index, row) in rows.lines().enumerate().skip(1) {
        let fields: Vec<_> = row.split('\t').collect();
        let [file, before, check, instead, scenarios] = fields[..] else {
            found.push(format!("{}: {} fields", index + 1, fields.len()));
            continue;
        };
        let before = before.replace("\\n", "\n");
        let place = format!("{before}{check}");
        let text = texts.entry(file).or_insert_with(|| read(file));
        let times = text.matches(&place).count();
        let changed = format!("{before}(if is_dropped {{ {instead} }} else {{ {check} }})");
        *text = text.replace(&place, &changed);
        if times != 1 || instead == check || scenarios.is_empty() {
            let row = index + 1;
            found.push(format!("{row}: {file}: {check}: applies {times} times"));
        }
    }
    assert_none("loom-tests/checks.tsv", &found);
}

#[test]
fn imports_point_down_and_folders_name_nothing_that_is_banned_there() {
    let mut found = Vec::new();
    for source in &sources() {
        let (floors, path) = match source.path.strip_prefix("core/src/") {
            Some(path) => (CORE_FLOORS, path),
            None => (FLOORS, source.path.strip_prefix("src/").unwrap_or("")),
        };
        let floor = |name: &str| floors.iter().position(|floor| floor.contains(&name));
        let own = path.split(['/', '.']).next().unwrap_or("");
        for (index, line) in source.code() {
            let names = line.split("crate::").skip(1);
            let names = names.filter_map(|rest| rest.split(|c| !is_word(c)).next());
            for name in names.filter(|name| *name != own && floor(own) <= floor(name)) {
                let is_up = floor(own).is_some() && floor(name).is_some();
                found
                    .extend(is_up.then(|| format!("{}:{}: crate::{name}", source.path, index + 1)));
            }
            for (folder, except, banned) in BANNED {
                if source.path.starts_with(folder) && !source.path.starts_with(except) {
                    let named = banned.iter().filter(|name| line.contains(**name));
                    found.extend(named.map(|it| format!("{}:{}: {it}", source.path, index + 1)));
                }
            }
        }
    }
    assert_none("see FLOORS, CORE_FLOORS and BANNED", &found);
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

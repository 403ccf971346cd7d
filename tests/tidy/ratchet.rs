//! Makes growth of the library visible: a commit that adds lines of code to `src` adds a row here, and says for what.

use super::{assert_none, sources};

/// Lines of code in `src` that are there, and those that came since, each with its reason.
const LINES: &[(usize, &str)] = &[
    (14_437, "what was there on 2026-11-24, in the default style"),
    (
        96,
        "setters, sums, conversions and forwarding calls as plain functions",
    ),
    (24, "on_worker_start, on_worker_stop"),
    (12, "the rest of an event loop's drain, dropped one by one"),
    (
        9,
        "a wake that is stopped half-way, for a test of the parker",
    ),
    (28, "Timer::cancel_all"),
    (70, "SpinClock"),
    (
        60,
        "a sleep without remotes, and the next deadline remembered",
    ),
    (12, "a drain that is resumed without a fence"),
    (97, "a poll with nothing to do returns at once"),
    (24, "a reading of the clock without Instant"),
    (22, "calls of FixedTimer that are not those of a LocalTimer"),
    (
        23,
        "ends told to sleeping tasks, wait_idle, spinning workers and subscribers",
    ),
    (29, "a lag that stays true, and a cancel of all by a loop"),
    (
        67,
        "keys after a fork, sweeps that begin anew, chunks that are shared, numbers that come with their memory",
    ),
    (13, "a lag of what comes after a turn was requested"),
    (8, "another trim after one that a burst interrupted"),
    (8, "a loop that does not sleep while a sweep goes on"),
    (22, "memory given back where there is none for a copy"),
    (3, "an import where there are threads only"),
];

#[test]
fn lines_of_code_in_src_grow_by_a_commit_that_says_for_what() {
    let sources = sources();
    let library = sources
        .iter()
        .filter(|source| source.path.starts_with("src/"));
    let lines: usize = library.map(|source| source.code().count()).sum();
    let allowed: usize = LINES.iter().map(|(lines, _)| lines).sum();
    println!("{lines} lines of code in src, {allowed} have a reason");
    let grown = (lines > allowed).then(|| {
        format!(
            "{lines} lines of code, {allowed} have a reason: add a row to LINES that says for what"
        )
    });
    assert_none("src grew", &grown.into_iter().collect::<Vec<_>>());
}

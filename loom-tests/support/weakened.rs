//! One ordering made weaker, to see whether a model notices: `loom-tests/orderings.sh`.
//!
//! An operation is known by the line of the library that asks for it. So one build serves all of them, and nobody has
//! to keep a list of patches. Two variables of the environment say what to do:
//!
//! * `TICKWHEEL_ORDERINGS`: each scenario prints the operations that it has met;
//! * `TICKWHEEL_WEAKEN="src/state/word.rs:89 store Relaxed"`: this one operation gets that ordering.

use loom::sync::atomic::Ordering;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::OnceLock;

/// What an ordering is given to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    Load,
    Store,
    /// A read-modify-write, or a compare-and-swap that succeeds.
    Exchange,
    /// A compare-and-swap that fails.
    Failure,
    Fence,
}

impl Part {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// All but `SeqCst`: nothing is weakened to that.
const WEAKER: [Ordering; 4] = [
    Ordering::Relaxed,
    Ordering::Acquire,
    Ordering::Release,
    Ordering::AcqRel,
];

#[derive(Debug)]
enum Mode {
    AsWritten,
    Record,
    Weaken {
        file: String,
        line: u32,
        part: String,
        to: Ordering,
    },
}

thread_local! {
    /// What the scenario on this thread has met: file, line and part of operations, and their orderings. Loom's
    /// threads all run on one thread of the system.
    static MET: RefCell<BTreeSet<(&'static str, u32, Part, String)>> =
        const { RefCell::new(BTreeSet::new()) };
}

fn parsed(text: &str) -> Option<Mode> {
    let [at, part, to] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let (file, line) = at.rsplit_once(':')?;
    let to = WEAKER.into_iter().find(|it| format!("{it:?}") == to)?;
    Some(Mode::Weaken {
        file: file.into(),
        line: line.parse().ok()?,
        part: part.into(),
        to,
    })
}

fn mode() -> &'static Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    MODE.get_or_init(|| {
        if std::env::var_os("TICKWHEEL_ORDERINGS").is_some() {
            return Mode::Record;
        }
        std::env::var("TICKWHEEL_WEAKEN").map_or(Mode::AsWritten, |text| {
            parsed(&text).unwrap_or_else(|| panic!("TICKWHEEL_WEAKEN names no operation: {text}"))
        })
    })
}

/// The ordering that this operation gets.
#[track_caller]
pub fn ordering(part: Part, order: Ordering) -> Ordering {
    match mode() {
        Mode::AsWritten => order,
        Mode::Record => {
            let at = Location::caller();
            let met = (at.file(), at.line(), part, format!("{order:?}"));
            MET.with_borrow_mut(|all| all.insert(met));
            order
        }
        Mode::Weaken {
            file,
            line,
            part: wanted,
            to,
        } => {
            let at = Location::caller();
            let this = at.line() == *line && at.file() == file && part.name() == *wanted;
            if this { *to } else { order }
        }
    }
}

/// Prints what `scenario` has met, if that is asked for.
pub fn print_met(scenario: &str) {
    for (file, line, part, order) in MET.take() {
        println!("ORDERING {scenario} {file}:{line} {} {order}", part.name());
    }
}

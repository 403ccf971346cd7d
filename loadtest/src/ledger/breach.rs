//! The kinds of breaches that a ledger finds.

use std::fmt;

/// What a timer engine must never do, in the order in which reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// Fired before its requested deadline.
    Early,
    /// Ended twice: fired and cancelled, fired twice, returned after it fired, ...
    Twice,
    /// Accepted, and then neither fired, nor cancelled, nor returned.
    Lost,
    /// The sums, the engine's statistics or a computed outcome differ from what the ledger says.
    Mismatch,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Early => "early",
            Self::Twice => "twice",
            Self::Lost => "lost",
            Self::Mismatch => "mismatch",
        })
    }
}

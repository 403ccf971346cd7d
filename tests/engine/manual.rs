//! The engine on a clock that is turned by hand, with workers and without: each invariant of the
//! design's list "What must always hold" that needs no real time.
//!
//! The property below shows invariants 1 to 4, 9 and 12: random operations, of handlers as well, against a sorted map.
//!
//! | room | invariants |
//! |---|---|
//! | `time` | 2, 3, 11: never early, moves without end, idle shards |
//! | `bounds` | 6, 7, 10: zombies, work per turn, counters |
//! | `handlers` | 5, 8, 12: what a handler may do, that it may panic, and that nobody waits for it |

mod bounds;
mod handlers;
mod time;

use crate::support::engine_manual::{self, Case};
use crate::support::properties::{cases, config};
use proptest::prelude::*;

proptest! {
    #![proptest_config(config(1024))]

    #[test]
    fn any_run_of_operations_fires_what_the_model_says(case in cases::<Case>(2048)) {
        engine_manual::check(&case);
    }
}

//! The engine on a clock that is turned by hand, with workers and without: each invariant of the
//! design's list "What must always hold" that needs no real time.
//!
//! | room | invariants |
//! |---|---|
//! | `model` | 1, 2, 3: random operations against a sorted map |
//! | `ends` | 1, 4, 8, 9: every timer ends once; stale keys; panics; refusals |
//! | `time` | 2, 3, 11: never early, jumps, bursts, long uptimes, the ends of the scale |
//! | `bounds` | 6, 7, 10: zombies, work per turn, counters |
//! | `handlers` | 5, 12: what a handler may do, and that nobody waits for it |

mod bounds;
mod ends;
mod handlers;
mod model;
mod time;

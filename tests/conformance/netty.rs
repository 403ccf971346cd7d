//! What Netty's `HashedWheelTimer` does, and what tickwheel does about it, row by row.
//!
//! | room | what is inside |
//! |---|---|
//! | `building` | arguments, states, start and stop |
//! | `timeouts` | delays, limits, cancels, order, tasks |
//! | `real_time` | the checks that are about real time |
//!
//! Tests named `netty_...` reproduce the reference; tests named `unlike_netty_...` are deliberate
//! deviations. The warning about more than 64 engines needs a process of its own: `tests/engine_count.rs`.

mod building;
mod real_time;
mod timeouts;

use crate::support::setup::one_shard;
use tickwheel::{Builder, WheelKind};

/// The reference's wheel: one ring, here of 512 buckets, of 1 ms ticks.
fn netty() -> Builder {
    one_shard().wheel(WheelKind::Hashed { buckets: 512 })
}

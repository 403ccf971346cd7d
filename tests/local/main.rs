//! `LocalTimer`: timers of one thread.
//!
//! | room | what is inside |
//! |---|---|
//! | `model` | against a naive model |
//! | `periodic` | periodic timers |
//! | `order` | the order of what is due at once |
//! | `memory` | what is allocated and held, with an allocator that counts per thread |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod allocations;
    pub(crate) mod book;
    pub(crate) mod breakable;
    pub(crate) mod choices;
    pub(crate) mod ledger;
    pub(crate) mod local_model;
    pub(crate) mod loop_timer;
    pub(crate) mod properties;
    pub(crate) mod random;
    pub(crate) mod ticks;
}

mod memory;
mod model;
mod order;
mod periodic;

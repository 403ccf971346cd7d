//! Both wheels against one naive model, and the situations in which other timer wheels failed.
//!
//! | room | what is inside |
//! |---|---|
//! | `model` | the sorted map that both wheels are compared with, and the comparison |
//! | `properties` | random operations, compared after every step |
//! | `directed` | uptimes, spans and jumps that random search would rarely meet |
//! | `bursts` | ticks with so many entries that some are set aside |
//! | `memory` | what is allocated, held and given back |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod allocations;
    pub(crate) mod checked_wheel;
    pub(crate) mod choices;
    pub(crate) mod properties;
    pub(crate) mod random;
    pub(crate) mod ticks;
    pub(crate) mod wheel_model;
}

mod bursts;
mod directed;
mod memory;
mod properties;

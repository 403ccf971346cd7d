//! The engine, `Timer`: on a clock turned by hand, on the real clock with real threads, under random load.
//!
//! | room | what is inside |
//! |---|---|
//! | `manual` | what needs no real time: each invariant of the design's list that a manual clock can show |
//! | `cancel_all` | all pending timers cancelled in one call |
//! | `figures` | statistics that move rarely, each made to move |
//! | `handles` | owned handles, weak timers, guards: who keeps an engine |
//! | `periodic` | periodic timers on every front: steps, interruptions, policies, users' code |
//! | `long_uptime` | years of a server's life on a manual clock, judged by books of its own |
//! | `threads` | what only races, sleeps and dying threads can show |
//! | `stress` | random engines under random load on real threads |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod book;
    pub(crate) mod breakable;
    pub(crate) mod choices;
    pub(crate) mod engine_manual;
    pub(crate) mod engine_threads;
    pub(crate) mod hand;
    pub(crate) mod ledger;
    pub(crate) mod loop_timer;
    pub(crate) mod properties;
    pub(crate) mod random;
    pub(crate) mod setup;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
    pub(crate) mod ticks;
}

mod cancel_all;
mod figures;
mod handles;
mod long_uptime;
mod manual;
mod periodic;
mod stress;
mod threads;

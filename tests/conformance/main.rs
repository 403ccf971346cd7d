//! What other timer systems do, and do wrong, held against tickwheel.
//!
//! | room | what is inside |
//! |---|---|
//! | `netty` | Netty's `HashedWheelTimer` and Dubbo's copy of it, row by row |
//! | `kafka` | Kafka's `TimingWheel` and `SystemTimer`, row by row |
//! | `lost` | failures of other systems: timers lost or ended twice between threads, counts that went wrong |
//! | `time` | failures of other systems: wraps, spans, jumps, clocks that go back, pauses |
//! | `handlers` | failures of other systems: what handlers did to the timers around them, shards that were off |

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod ledger;
    pub(crate) mod random;
    pub(crate) mod setup;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
}

mod handlers;
mod kafka;
mod lost;
mod netty;
mod time;

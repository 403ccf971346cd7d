//! What other timer systems do, and do wrong, held against tickwheel.
//!
//! | room | what is inside |
//! |---|---|
//! | `netty` | Netty's `HashedWheelTimer`, row by row |
//! | `dubbo` | what Dubbo's copy of it checks beyond Netty's own suite |
//! | `kafka` | Kafka's `TimingWheel` and `SystemTimer`, row by row |
//! | `failures` | failures that other timer systems had, and that do not happen here |

#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../support"]
mod support {
    pub(crate) mod ledger;
    pub(crate) mod random;
    pub(crate) mod setup;
    #[cfg(target_os = "linux")]
    pub(crate) mod system;
}

mod dubbo;
mod failures;
mod kafka;
mod netty;

//! What other timer systems do, and do wrong, held against tickwheel.
//!
//! | room | what is inside |
//! |---|---|
//! | `netty` | Netty's `HashedWheelTimer`, row by row |
//! | `dubbo` | what Dubbo's copy of it checks beyond Netty's own suite |
//! | `kafka` | Kafka's `TimingWheel` and `SystemTimer`, row by row |
//! | `failures` | failures that other timer systems had, and that do not happen here |

#[path = "../common/mod.rs"]
mod common;

mod dubbo;
mod failures;
mod kafka;
mod netty;

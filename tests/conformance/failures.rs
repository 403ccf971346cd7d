//! The failures that other timer systems had, each as a test that it does not happen here.
//!
//! | room | what is inside |
//! |---|---|
//! | `lost` | timers lost or ended twice between threads, and counts that went wrong |
//! | `time` | wraps, spans, jumps, clocks that go back, pauses |
//! | `handlers` | what handlers did to the timers around them, shards that were silently off |

mod handlers;
mod lost;
mod time;

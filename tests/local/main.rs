//! `LocalTimer` and `FixedTimer`: timers of one thread.
//!
//! | room | what is inside |
//! |---|---|
//! | `model` | both against naive models, on both kinds of wheel |
//! | `handlers` | what a handler may do to the timer that called it |
//! | `periodic` | periodic timers |
//! | `order` | the order of what is due at once |
//! | `memory` | what is allocated and held, with an allocator that counts per thread |

mod handlers;
mod memory;
mod model;
mod order;
mod periodic;

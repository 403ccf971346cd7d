//! Futures over an engine: on a clock turned by hand, on real threads, with wakers that misbehave.
//!
//! | room | what is inside |
//! |---|---|
//! | `children` | processes of a test's own |
//! | `rig` | an engine turned by hand, wakers that count, an executor of a few lines |
//! | `sleep` | `Sleep`: when it is ready, what it costs, how it ends |
//! | `combined` | `Timeout` and `Interval` |
//! | `hostile` | wakers whose `Clone`, `Drop` and `wake` panic or call back |
//! | `model` | random sleeps against a list |
//! | `threads` | polls, waker changes, drops and stops that race with the workers |
//! | `together` | wakers of one turn: called together, in order |
//!
//! The same futures on tokio, smol and others: the workspace member `util`.

#[allow(dead_code, unreachable_pub, reason = "each program uses a part of it")]
#[path = "../support"]
mod support {
    pub(crate) mod breakable;
    pub(crate) mod random;
    pub(crate) mod setup;
}

#[allow(
    dead_code,
    reason = "shared with other programs, each of which uses a part"
)]
#[path = "../hostile/children.rs"]
mod children;
mod combined;
mod first;
mod hostile;
mod model;
mod rig;
mod sleep;
mod threads;
mod together;

//! `LocalTimer` and `FixedTimer` against naive models, on both kinds of wheel.

mod fixed;
mod local;
mod ops;

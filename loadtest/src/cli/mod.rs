//! The command line: options, defaults, and which room they lead to.
//!
//! * `command` - runs the chosen command; `args` - the options and their defaults
//! * `server` - the options of `loadtest server`

mod args;
mod command;
mod server;

pub use command::main;

//! What a command is made of: its options, as clap reads them, with defaults and checks.
//!
//! * `parse` - reads values from text; `delays` - the spread of delays
//! * `engine`, `load`, `server` - the settings of each part; `setting` - how reports show one

pub(crate) mod delays;
pub(crate) mod engine;
pub(crate) mod load;
pub(crate) mod parse;
pub(crate) mod server;
pub(crate) mod setting;

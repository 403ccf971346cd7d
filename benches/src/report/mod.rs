//! What a run came to: Markdown and charts.

mod chart;
mod machine;
mod markdown;

pub use chart::{Bar, bars, draw};
pub use machine::Circumstances;
pub use markdown::{insert, insert_between, render};

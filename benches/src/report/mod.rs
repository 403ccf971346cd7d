//! What a run came to: Markdown and charts.

mod chart;
mod machine;
mod markdown;

pub use chart::draw;
pub use machine::Circumstances;
pub use markdown::{insert, render};

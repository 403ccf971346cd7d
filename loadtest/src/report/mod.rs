//! One model of what a run came to, and its views. Knows no kind of run: each kind fills the model.
//!
//! * `model` - the report: verdict, phases, figures, distributions, time lines, tables
//! * `json`, `terminal`, `page` - the three views
//! * `outputs` - the files, opened before the run and written after it; `facts` - what the run was made from

mod facts;
pub(crate) mod json;
pub(crate) mod model;
pub(crate) mod outputs;
mod page;
pub(crate) mod terminal;

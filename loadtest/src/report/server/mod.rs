//! The results of a run against the idle server, in all three forms.

mod html;
mod json;
mod table;

use super::Results;
use crate::server::ServerOutcome;

/// What the run is called.
const TITLE: &str = "server run";

impl Results for ServerOutcome {
    fn is_ok(&self) -> bool {
        self.verdict.is_ok()
    }

    fn tables(&self) -> String {
        table::render(self)
    }

    fn verdict(&self) -> String {
        table::verdict(self)
    }

    fn html(&self) -> String {
        html::render(self)
    }

    fn json(&self) -> String {
        json::render(self)
    }
}

/// The most connections that were open at one moment, and the mean while the load ran.
fn held(outcome: &ServerOutcome) -> (u64, f64) {
    let most = outcome.samples.iter().map(crate::server::Sample::open).max().unwrap_or(0);
    // The opening at the start and the closing at the end are no part of the mean.
    let full = |open: &u64| *open * 2 > most;
    let during: Vec<u64> =
        outcome.samples.iter().map(crate::server::Sample::open).filter(full).collect();
    let mean = during.iter().sum::<u64>() as f64 / during.len().max(1) as f64;
    (most, mean)
}

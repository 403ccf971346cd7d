//! Where an engine stands: whoever sees it started sees what was set up before.

use super::harness::{Probe, UNBOUNDED, explore, spawn};
use crate::engine::state::{Phase, Standing};
use std::sync::Arc;

/// Whoever sees an engine started sees its set-up.
#[test]
fn started_means_set_up() {
    explore(UNBOUNDED, || {
        let (standing, set_up) = (Arc::new(Standing::new(1)), Arc::new(Probe::new()));
        let starting = spawn({
            let (standing, set_up) = (Arc::clone(&standing), Arc::clone(&set_up));
            move || {
                set_up.set(1);
                standing.set(Phase::Started);
            }
        });
        if standing.phase() == Phase::Started {
            assert_eq!(set_up.get(), 1);
        }
        starting.join().unwrap();
        assert_eq!(standing.phase(), Phase::Started);
    });
}

//! Where an engine stands: whoever sees it started sees what was set up before.

use super::harness::{Probe, UNBOUNDED, explore, spawn_with};
use crate::engine::crew::status::{EnginePhase, EngineStatus};
use std::sync::Arc;

/// Whoever sees an engine started sees its set-up.
#[test]
fn started_means_set_up() {
    explore(UNBOUNDED, || {
        let engine = Arc::new((EngineStatus::new(), Probe::new()));
        let (status, set_up) = &*engine;
        let starting = spawn_with(&engine, |(status, set_up)| {
            set_up.set(1);
            status.set(EnginePhase::Started);
        });
        // Each of them is the first to see it in some execution.
        if status.is(EnginePhase::Started) || status.phase() == EnginePhase::Started {
            assert_eq!(set_up.get(), 1);
        }
        starting.join().unwrap();
        assert_eq!(status.phase(), EnginePhase::Started);
    });
}

//! What one phase of a run is given.

use crate::interrupt::Interrupt;
use crate::settings::engine::EngineSettings;
use crate::settings::load::{LoadSettings, PhaseSettings};

/// Settings and switches, for all threads of a phase.
pub(crate) struct Session<'a> {
    pub(crate) engine: &'a EngineSettings,
    pub(crate) load: &'a LoadSettings,
    pub(crate) phase: PhaseSettings,
    pub(crate) quiet: bool,
    pub(crate) interrupt: &'a Interrupt,
}

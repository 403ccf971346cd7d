//! Whose timers are used.

use tickwheel::Timer;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) enum Engine {
    /// The process's.
    #[default]
    Shared,
    Own(Timer),
}

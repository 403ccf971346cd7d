//! Where an engine stands.

/// Where an engine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum EngineState {
    /// Built; the workers start with the first timer or with [`Timer::start`].
    Init = 0,
    /// Running.
    Started = 1,
    /// Stopped, which is final.
    Stopped = 2,
}

//! Epoch-based reclamation as the inbox uses it: pin, and defer a destruction.
//!
//! Three forms behind one face. In production the process-wide collector of `crossbeam-epoch`. Under
//! loom a fresh collector for each model (the global one would carry state from one execution into the
//! next). With `--cfg tickwheel_epoch_stand_in` a thin replacement whose pin is free and which
//! destroys at the very end: it lets loom explore three and more threads, which the real collector
//! does not allow in reasonable time.

#[cfg(not(tickwheel_epoch_stand_in))]
pub(crate) use crossbeam_epoch::Guard;

/// A reclamation domain; zero-sized in production.
#[cfg(not(tickwheel_loom))]
#[derive(Debug)]
pub(crate) struct Domain;

#[cfg(all(not(tickwheel_loom), not(tickwheel_epoch_stand_in)))]
impl Domain {
    pub(crate) fn new() -> Self {
        Self
    }

    /// Keeps everything that is retired from now on alive until the guard is dropped.
    #[inline]
    pub(crate) fn pin(&self) -> Guard {
        crossbeam_epoch::pin()
    }
}

#[cfg(all(tickwheel_loom, not(tickwheel_epoch_stand_in)))]
#[derive(Debug, Default)]
pub(crate) struct Domain(crossbeam_epoch::Collector);

#[cfg(all(tickwheel_loom, not(tickwheel_epoch_stand_in)))]
impl Domain {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn pin(&self) -> Guard {
        self.0.register().pin()
    }
}

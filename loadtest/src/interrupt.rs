//! Ctrl-C and SIGTERM: the first one asks for an early end with a full verdict, the second one aborts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;
use crate::progress::say;

/// A shared "please end" flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that Ctrl-C and SIGTERM raise. May be installed once per process.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        let flag = Self::default();
        let raised = flag.clone();
        ctrlc::set_handler(move || {
            if raised.is_raised() {
                // As shells write "ended by SIGINT".
                std::process::exit(130);
            }
            raised.raise();
            say("\nending early; the verdict follows (once more to abort)");
        })
        .map_err(|error| Failure::System(format!("cannot listen for Ctrl-C: {error}")))?;
        #[cfg(unix)]
        flag.raise_on_sigterm()
            .map_err(|error| Failure::System(format!("cannot listen for SIGTERM: {error}")))?;
        Ok(flag)
    }

    #[cfg(unix)]
    fn raise_on_sigterm(&self) -> std::io::Result<()> {
        use signal_hook::{consts::SIGTERM, flag};
        // The one that finds the flag raised; as shells write "ended by SIGTERM".
        flag::register_conditional_shutdown(SIGTERM, 143, self.0.clone())?;
        flag::register(SIGTERM, self.0.clone())?;
        Ok(())
    }

    /// Asks for the end.
    pub(crate) fn raise(&self) {
        // ORDERING: Relaxed, because the flag carries no data; whoever sees it late only runs on
        // a little longer.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub(crate) fn is_raised(&self) -> bool {
        // ORDERING: Relaxed, for the reason given in `raise`.
        self.0.load(Ordering::Relaxed)
    }
}

/// Raises a flag when it is dropped, by a panic as well.
pub(crate) struct RaisedAtEnd<'a>(pub(crate) &'a Interrupt);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

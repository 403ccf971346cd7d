//! The table of [`Calls`] by which other crates reach the code of an engine.
//!
//! A generic function is compiled in each crate that calls it. The code of an engine of closures is compiled in this one,
//! which builds it. A crate that drives, stops or drops such an engine would compile nearly all of that once more. What
//! it calls by this table it does not compile.

use crate::engine::hold;
use crate::engine::inner::{Calls, Inner};

impl<T: Send + 'static> Calls<T> {
    /// The table of all engines with these payloads.
    pub(in crate::engine) const ALL: Self = Self {
        retire: hold::retire,
        start: Inner::start,
        shutdown: Inner::shutdown,
        stop_orphaned: Inner::stop_orphaned,
        turn: Inner::turn,
        claim: Inner::claim,
        release: Inner::release,
        turn_driven: Inner::turn_driven,
    };
}

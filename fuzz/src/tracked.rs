//! A payload that counts its instances, so that one that leaks or is dropped twice shows at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many payloads there are.
#[derive(Clone, Default)]
pub(crate) struct Live(Arc<AtomicUsize>);

impl Live {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn payload(&self, id: u32) -> Tracked {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tracked { id, live: self.clone() }
    }
}

/// See the module.
pub(crate) struct Tracked {
    pub(crate) id: u32,
    live: Live,
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        self.live.payload(self.id)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let before = self.live.0.fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "payload {} is dropped a second time", self.id);
    }
}

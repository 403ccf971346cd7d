//! Blocks at rest: those that serve again, and what becomes of the others.
//!
//! A few are kept (`pool`). In the steady state now and then one more is freed and soon allocated again, which the
//! allocator does best. After a backlog, when the owner was kept waiting, many are freed in a row and none is asked
//! for: an allocator would keep them for good, so the system has their pages back, which takes a call each. About an
//! eighth stays, because blocks do not begin and end with a page.
//!
//! Any thread; lock-free.

use super::block::Block;
use super::pool::Pool;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::bounded;

/// Blocks that rest at most: what one drain takes, so that they serve until the next. Two under loom.
const AT_REST: usize = bounded(16, 2);

/// Blocks that are freed in a row before it is taken for the end of a backlog.
const IN_A_ROW: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct AtRest {
    blocks: Pool<Block, AT_REST>,
    /// Blocks freed since a thread asked for one in vain.
    freed: AtomicUsize,
}

impl AtRest {
    pub(super) fn new() -> Self {
        Self { blocks: Pool::new(), freed: AtomicUsize::new(0) }
    }

    /// A block that was put.
    pub(super) fn take(&self) -> Option<Box<Block>> {
        let block = self.blocks.take();
        if block.is_none() {
            // ORDERING: Relaxed: a rough count, whoever writes it.
            self.freed.store(0, Ordering::Relaxed);
        }
        block
    }

    /// Keeps a block for later, or frees it.
    pub(super) fn put(&self, block: Box<Block>) {
        let Some(block) = self.blocks.put(block) else { return };
        // ORDERING: Relaxed, both: as in `take`.
        let freed = self.freed.load(Ordering::Relaxed).saturating_add(1);
        self.freed.store(freed, Ordering::Relaxed);
        if freed > IN_A_ROW {
            block.discard();
        }
    }
}

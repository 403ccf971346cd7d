//! The program's own ledger: what became of every timer, kept without asking the engine.
//!
//! Each producer owns a *writer* with slots; a slot describes one timer at a time, a *ticket* names one
//! timer for ever (slot and life). Two words per slot, each with one kind of writer, tell the story:
//!
//! ```text
//!              life (producer)                       fired (the shard that runs the handler)
//!   schedule   n, Pending                            older life
//!   cancelled  n, Cancelled  checks fired != n       stays older
//!   fired      n, Pending    frees once fired == n   n, after checking that life is "n, Pending"
//!   refused    n, Refused                            stays older
//! ```
//!
//! A timer that ends twice leaves a contradiction that one side sees at once, or the next user of the
//! slot, or the audit after the run; a timer that never ends is still Pending in the audit. So the
//! answer is exact, and yet a schedule + cancel pair costs plain loads and stores only.
//!
//! * `slot` - the two words; `table` - all slots, named by tickets
//! * `writer` - the producer's side; `handlers` - the firing side
//! * `totals` - counts to be compared; `audit` - the last look at every slot, and the verdict

pub(crate) mod audit;
pub(crate) mod handlers;
mod slot;
pub(crate) mod table;
pub(crate) mod totals;
pub(crate) mod writer;

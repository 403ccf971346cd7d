//! The producer's side of the ledger: one thread, its own slots, plain loads and stores.

use std::collections::TryReserveError;
use std::sync::Arc;

use super::slot::Phase;
use super::table::{Ledger, Ticket};
use crate::findings::Breach;

/// One producer's slots. Not shared; a slot is free again once its timer has ended.
pub(crate) struct Writer {
    ledger: Arc<Ledger>,
    /// Last in, first out, so that a small working set stays in the cache.
    free: Vec<u32>,
}

impl Writer {
    /// The writer of producer `producer`. Each may be taken once. Fails if there is no memory for its list of slots.
    pub(crate) fn new(ledger: &Arc<Ledger>, producer: usize) -> Result<Self, TryReserveError> {
        let per_writer = ledger.slots_per_writer;
        let first = u32::try_from(producer).expect("the ledger number every slot") * per_writer;
        let mut free = Vec::new();
        free.try_reserve_exact(per_writer as usize)?;
        free.extend((first..first + per_writer).rev());
        Ok(Self { ledger: Arc::clone(ledger), free })
    }

    /// The ledger this writer belongs to.
    #[inline]
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Slots without a timer.
    #[inline]
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Opens an account for a timer that is about to be scheduled; `None` if no slot is free.
    #[inline]
    pub(crate) fn open(&mut self, deadline_ns: u64) -> Option<Ticket> {
        let index = self.free.pop()?;
        let slot = &self.ledger.slots[index as usize];
        let (life, phase) = slot.life();
        if matches!(phase, Phase::Cancelled | Phase::Refused) && slot.fired() == life {
            let old = Ticket { slot: index, life };
            self.ledger.breach(Breach::Twice, old, &format!("{phase:?}, and fired as well"));
        }
        let life = life.wrapping_add(1).max(1);
        slot.begin(life, deadline_ns);
        Some(Ticket { slot: index, life })
    }

    /// The engine refused the timer.
    pub(crate) fn refused(&mut self, ticket: Ticket) {
        self.close(ticket, Phase::Refused, "refused");
    }

    /// A cancel of the timer was won.
    #[inline]
    pub(crate) fn cancelled(&mut self, ticket: Ticket) {
        self.close(ticket, Phase::Cancelled, "cancelled");
    }

    #[inline]
    fn close(&mut self, ticket: Ticket, phase: Phase, word: &str) {
        let slot = &self.ledger.slots[ticket.slot as usize];
        if slot.fired() == ticket.life {
            slot.set_phase(ticket.life, Phase::Judged);
            let what = format!("{word} although its handler had run");
            self.ledger.breach(Breach::Twice, ticket, &what);
        } else {
            slot.set_phase(ticket.life, phase);
        }
        self.free.push(ticket.slot);
    }

    /// Whether the timer's handler has run.
    #[inline]
    pub(crate) fn has_fired(&self, ticket: Ticket) -> bool {
        self.ledger.slots[ticket.slot as usize].fired() == ticket.life
    }

    /// Frees the slot if the timer's handler has run; says whether it has.
    #[inline]
    pub(crate) fn reap(&mut self, ticket: Ticket) -> bool {
        let fired = self.has_fired(ticket);
        if fired {
            self.free.push(ticket.slot);
        }
        fired
    }

    /// Before a reschedule: from now on the timer may fire at its old or at its new deadline.
    #[inline]
    pub(crate) fn moving(&mut self, ticket: Ticket, deadline_ns: u64) {
        let slot = &self.ledger.slots[ticket.slot as usize];
        slot.set_deadline(slot.deadline().min(deadline_ns));
    }

    /// After a reschedule that succeeded: only the new deadline counts.
    #[inline]
    pub(crate) fn moved(&mut self, ticket: Ticket, deadline_ns: u64) {
        self.ledger.slots[ticket.slot as usize].set_deadline(deadline_ns);
    }
}

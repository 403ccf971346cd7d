//! The firing side of the ledger: called by the handler on the shard's own thread.

use std::cell::Cell;

use super::slot::Phase;
use super::table::{Ledger, Ticket, lock};
use crate::findings::Breach;

impl Ledger {
    /// Records that `ticket` fired on `shard`, and judges it.
    pub(crate) fn record_fired(&self, shard: usize, ticket: Ticket) {
        let now = self.now_ns();
        let Some(slot) = self.slots.get(ticket.slot as usize) else {
            self.breach(Breach::Mismatch, ticket, "fired, but no such timer was ever scheduled");
            return;
        };
        let (life, phase) = slot.life();
        let mut late = None;
        if life != ticket.life {
            let what = format!("fired after it had ended (its slot is at life {life})");
            self.breach(Breach::Twice, ticket, &what);
        } else if phase != Phase::Pending {
            self.breach(Breach::Twice, ticket, &format!("fired after it was {phase:?}"));
        } else {
            // Read before the mark: with the mark set, the producer may give the slot to another.
            let deadline = slot.deadline();
            if slot.fire(ticket.life) == ticket.life {
                self.breach(Breach::Twice, ticket, "fired twice");
            } else if now < deadline {
                let what = format!("fired {} ns before its deadline", deadline - now);
                self.breach(Breach::Early, ticket, &what);
            }
            late = Some(now.saturating_sub(deadline));
        }
        let index = shard % self.shards.len();
        let mut record = lock(&self.shards[index]);
        record.fired += 1;
        if let Some(late) = late {
            record.lateness.saturating_record(late);
        }
        self.fired_live[index].set(record.fired);
    }
}

/// Records a firing on the shard that this thread drives, for payloads that are not told the shard.
pub(crate) fn record_on_this_thread(ledger: &Ledger, ticket: Ticket) {
    thread_local!(static SHARD: Cell<Option<usize>> = const { Cell::new(None) });
    let shard = SHARD.get().unwrap_or_else(|| {
        let shard = shard_in_name(std::thread::current().name());
        SHARD.set(Some(shard));
        shard
    });
    ledger.record_fired(shard, ticket);
}

/// The engine names its threads "{prefix}-{shard}".
fn shard_in_name(name: Option<&str>) -> usize {
    name.and_then(|name| name.rsplit_once('-')?.1.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_shard_in_a_thread_name() {
        assert_eq!(shard_in_name(Some("load-test-12")), 12);
        assert_eq!(shard_in_name(Some("main")), 0);
        assert_eq!(shard_in_name(None), 0);
    }
}

//! Turns what the producers did into a workload file's lines.

use std::collections::HashMap;
use std::time::Duration;

use crate::ledger::table::Ticket;
use crate::workload::{Action, Op};

/// One thing a producer did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) time_ns: u64,
    pub(crate) ticket: Ticket,
    pub(crate) action: LoggedAction,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LoggedAction {
    Schedule(Duration),
    Reschedule(Duration),
    Cancel,
}

/// All producers' logs in order of time, with timers numbered from 1 as they appear and time counted
/// from the first operation.
pub(crate) fn merge(mut all: Vec<Logged>) -> Vec<Op> {
    // Stable, so that what one producer did within one nanosecond keeps its order.
    all.sort_by_key(|logged| logged.time_ns);
    let start_us = all.first().map_or(0, |first| first.time_ns / 1000);
    let mut ids: HashMap<Ticket, u64> = HashMap::new();
    let micros = |delay: Duration| u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
    all.into_iter()
        .map(|logged| {
            let next = ids.len() as u64 + 1;
            let id = *ids.entry(logged.ticket).or_insert(next);
            let action = match logged.action {
                LoggedAction::Schedule(delay) => Action::Schedule { delay_us: micros(delay) },
                LoggedAction::Reschedule(delay) => Action::Reschedule { delay_us: micros(delay) },
                LoggedAction::Cancel => Action::Cancel,
            };
            Op { time_us: logged.time_ns / 1000 - start_us, id, action }
        })
        .collect()
}

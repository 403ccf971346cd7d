//! What any process may ask for a job.

use redis::AsyncCommands;

use super::access::{Store, script};
use crate::error::StoreError;
use crate::job::{Accepted, Found, Job, JobId, NewJob, State, When};
use crate::settings::millis;

impl Store {
    /// Accepts a job. When this returns, Redis has it.
    ///
    /// # Errors
    ///
    /// [`StoreError::KeyReused`], [`StoreError::Away`].
    pub async fn create(&self, new: &NewJob) -> Result<Accepted, StoreError> {
        let partitions = u64::from(self.settings.partitions);
        let once = new.idempotency_key.as_deref().unwrap_or("");
        // The same key always leads to the same partition, and so to the same script's memory.
        let number = if once.is_empty() { fastrand::u64(..) } else { spread(once) };
        let partition = u16::try_from(number % partitions).unwrap_or(0);
        let id = JobId::random(partition);
        let (due, delay) = parts(new.when);
        let mut call = script!("create").key(self.base(partition));
        call.arg(id.as_str()).arg(&new.payload).arg(due).arg(delay).arg(once);
        call.arg(self.settings.window_ms());
        let (word, id, due_ms): (String, String, u64) = self.call(&call).await?.value;
        if word == "conflict" {
            return Err(StoreError::KeyReused(id));
        }
        let id = id.parse().map_err(StoreError::Unfit)?;
        Ok(Accepted { id, due_ms, repeated: word == "known" })
    }

    /// Cancels a pending job; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn cancel(&self, id: &JobId) -> Result<Found, StoreError> {
        self.own(id)?;
        let mut call = script!("cancel").key(self.base(id.partition()));
        call.arg(id.as_str()).arg(millis(self.settings.retention));
        found(id, self.call(&call).await?.value)
    }

    /// Moves the deadline of a pending job. With an idempotency key a repetition moves it only once.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn reschedule(
        &self,
        id: &JobId,
        when: When,
        idempotency_key: Option<&str>,
    ) -> Result<Found, StoreError> {
        self.own(id)?;
        let (due, delay) = parts(when);
        let mut call = script!("reschedule").key(self.base(id.partition()));
        call.arg(id.as_str()).arg(due).arg(delay).arg(idempotency_key.unwrap_or(""));
        call.arg(self.settings.window_ms());
        found(id, self.call(&call).await?.value)
    }

    /// Looks a job up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn get(&self, id: &JobId) -> Result<Job, StoreError> {
        self.own(id)?;
        let key = format!("{}:job:{id}", self.base(id.partition()));
        let mut loan = self.link.loan().await?;
        let fields = ["state", "due", "created", "fired", "payload"];
        type Fields = (Option<String>, Option<u64>, Option<u64>, Option<u64>, Option<String>);
        let read: Result<Fields, _> = loan.connection.hmget(&key, &fields[..]).await;
        let (state, due, created, fired_ms, payload) = match read {
            Ok(fields) => fields,
            Err(error) => {
                self.link.report(loan.number(), &error).await;
                return Err(error.into());
            }
        };
        let state = state.as_deref().and_then(State::parse);
        let (Some(state), Some(due_ms), Some(created_ms)) = (state, due, created) else {
            return Err(StoreError::Unknown(id.to_string()));
        };
        let payload = payload.unwrap_or_default();
        Ok(Job { id: id.clone(), state, due_ms, created_ms, fired_ms, payload })
    }

    /// A partition that is not ours has no jobs.
    fn own(&self, id: &JobId) -> Result<(), StoreError> {
        let ours = id.partition() < self.settings.partitions;
        if ours { Ok(()) } else { Err(StoreError::Unknown(id.to_string())) }
    }
}

fn found(id: &JobId, (state, due_ms): (String, u64)) -> Result<Found, StoreError> {
    match State::parse(&state) {
        Some(state) => Ok(Found { state, due_ms }),
        None => Err(StoreError::Unknown(id.to_string())),
    }
}

/// The two arguments of a script that say when: one of them is empty.
fn parts(when: When) -> (String, String) {
    match when {
        When::After(delay) => (String::new(), millis(delay).to_string()),
        When::At(due) => (due.to_string(), String::new()),
    }
}

/// Fowler, Noll and Vo's hash (FNV-1a): every node and every version must compute the same.
fn spread(key: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    // Its low bits alone are weak.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_over_partitions_and_stay_there() {
        let mut counts = [0; 16];
        (0..16_000).for_each(|n| counts[(spread(&format!("order-{n}")) % 16) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(spread("a"), 0xaf63_dc4c_8601_ec8c ^ 0xaf63_dc4c);
    }
}

//! What any process may ask for a job.

use super::access::{Store, script};
use crate::error::{Result, StoreError};
use crate::job::{Found, Job, JobId, State, When, most_attempts};
use crate::settings::millis;

impl Store {
    /// Cancels a pending job; repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn cancel(&self, id: &JobId) -> Result<Found> {
        let args = (id.as_str(), millis(self.settings.retention));
        found(id, self.run(script!("cancel"), id.partition(), args).await?)
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
    ) -> Result<Found> {
        let key = idempotency_key.unwrap_or("");
        let args = (id.as_str(), parts(when), key, self.settings.window_ms());
        found(id, self.run(script!("reschedule"), id.partition(), args).await?)
    }

    /// Looks a job up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unknown`], [`StoreError::Away`].
    pub async fn get(&self, id: &JobId) -> Result<Job> {
        type Text = Option<String>;
        type Number = Option<u64>;
        type Fields = (Text, Number, Number, Number, Option<u32>, Option<u32>, Text, Text, Text);
        let (state, due, created, fired_ms, attempt, spent, policy, reason, payload): Fields =
            self.run(script!("get"), id.partition(), id.as_str()).await?;
        let state = state.as_deref().and_then(State::parse);
        let (Some(state), Some(due_ms), Some(created_ms)) = (state, due, created) else {
            return Err(StoreError::Unknown(id.to_string()));
        };
        Ok(Job {
            id: id.clone(),
            state,
            due_ms,
            created_ms,
            fired_ms,
            attempts: attempt.unwrap_or(0).saturating_sub(spent.unwrap_or(0)),
            max_attempts: policy.as_deref().map_or(0, most_attempts),
            reason,
            payload: payload.unwrap_or_default(),
        })
    }
}

fn found(id: &JobId, (state, due_ms): (String, u64)) -> Result<Found> {
    let state = State::parse(&state).ok_or_else(|| StoreError::Unknown(id.to_string()))?;
    Ok(Found { state, due_ms })
}

/// The two arguments of a script that say when: one of them is empty.
pub(super) fn parts(when: When) -> (String, String) {
    match when {
        When::After(delay) => (String::new(), millis(delay).to_string()),
        When::At(due) => (due.to_string(), String::new()),
    }
}

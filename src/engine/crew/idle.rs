//! `wait_idle`: each shard answers once it has nothing left to do.

use super::status::EnginePhase;
use crate::engine::inner::Inner;
use crate::engine::settings::Drive;
use crate::sync::atomic::Ordering;

impl<T> Inner<T> {
    pub(crate) fn wait_idle(&self) {
        let is_at_rest = matches!(
            self.status.phase(),
            EnginePhase::Init | EnginePhase::Stopped
        );
        if is_at_rest || matches!(self.drive, Drive::Manual) || self.is_inside() {
            return;
        }
        let call = self.call_idle();
        self.request_turns();
        for berth in &self.berths {
            berth.standing.await_idle(call);
        }
    }

    /// Counts a call of `wait_idle` and returns its number. The caller requests turns and awaits the shards' answers.
    fn call_idle(&self) -> u64 {
        // ORDERING: Release pairs with the Acquire in `idle_calls`: a turn that begins with this call sees the timers that
        // were scheduled before. [P43]
        self.idle_calls.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns how many calls there were. A turn that has taken a call's request sees the call afterwards.
    #[inline]
    pub(super) fn idle_calls(&self) -> u64 {
        // ORDERING: Acquire as in `call_idle`. [P43]
        self.idle_calls.load(Ordering::Acquire)
    }
}

//! `wait_idle`: each shard answers once it has nothing left to do.

use super::status::EnginePhase;
use crate::engine::inner::Inner;
use crate::engine::settings::Drive;

impl<T> Inner<T> {
    pub(crate) fn wait_idle(&self) {
        let is_at_rest = matches!(
            self.status.phase(),
            EnginePhase::Init | EnginePhase::Stopped
        );
        if is_at_rest || matches!(self.drive, Drive::Manual) || self.is_inside() {
            return;
        }
        let standings = self.berths.iter().map(|berth| &berth.standing);
        let calls: Vec<_> = standings.map(|it| (it, it.call_idle())).collect();
        self.request_turns();
        for (standing, call) in calls {
            standing.await_idle(call);
        }
    }
}

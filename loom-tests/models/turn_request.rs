//! A turn that is requested before the alarm's time, of the companion crate: no request is lost at the end of a turn.

#[path = "../../util/src/tokio_rt/request.rs"]
mod request;

use super::harness::{UNBOUNDED, explore, spawn_with};
use crate::sync::lock::Mutex;
use request::TurnRequest;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GoesOff {
    AtOnce,
    Later,
}

struct Turner {
    request: TurnRequest,
    /// The kernel's: its calls come one after the other.
    alarm: Mutex<GoesOff>,
}

impl Turner {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            request: TurnRequest::default(),
            alarm: Mutex::new(GoesOff::Later),
        })
    }

    fn set(&self, goes_off: GoesOff) {
        *self.alarm.lock().unwrap() = goes_off;
    }

    fn request(&self) {
        self.request.make(|| self.set(GoesOff::AtOnce));
    }

    /// Sets the alarm and looks for a request, as a turn does at its end.
    fn end_turn(&self) -> bool {
        self.set(GoesOff::Later);
        self.request.take()
    }

    fn follows(&self, seen: bool) -> bool {
        seen || *self.alarm.lock().unwrap() == GoesOff::AtOnce
    }
}

/// The turn has seen the request, or the alarm goes off at once and another turn follows.
#[test]
fn request_or_end_of_a_turn() {
    explore(UNBOUNDED, || {
        let turner = Turner::new();
        let requester = spawn_with(&turner, |turner| turner.request());
        let seen = turner.end_turn();
        requester.join().unwrap();
        assert!(turner.follows(seen), "no turn follows the request");
    });
}

/// Two threads ask for one turn each, and one turn is enough for both.
#[test]
fn two_requests_or_end_of_a_turn() {
    explore(UNBOUNDED, || {
        let turner = Turner::new();
        let requesters = [(); 2].map(|()| spawn_with(&turner, |turner| turner.request()));
        let seen = turner.end_turn();
        for requester in requesters {
            requester.join().unwrap();
        }
        assert!(turner.follows(seen), "no turn follows the requests");
        turner.end_turn();
        assert!(
            !turner.follows(turner.end_turn()),
            "a turn follows for nothing"
        );
    });
}

//! `tickwheel::Timer`.

use super::peer::{CrossPeer, Session, Setup};
use std::time::Duration;
use tickwheel::{Builder, Expired, Key, Timer};

/// At the default settings, except for what the figure asks for.
pub struct EnginePeer(Timer<u64>);

impl CrossPeer for EnginePeer {
    type Session = Timer<u64>;

    fn start(setup: Setup) -> Self {
        let mut builder = Builder::new().tick(setup.tick);
        if let Some(shards) = setup.shards {
            builder = builder.shards(shards);
        }
        let book = setup.book;
        let timer = builder.build_with(move |expired: Expired<u64>| book.fired(expired.payload));
        let timer = timer.expect("the settings are in range");
        timer.start().expect("the workers start");
        Self(timer)
    }

    fn session(&self, _thread: usize) -> Timer<u64> {
        self.0.clone()
    }
}

impl Session for Timer<u64> {
    type Handle = Key;

    #[inline]
    fn schedule(&mut self, delay: Duration, payload: u64) -> Key {
        self.schedule_key(delay, payload).expect("there is no limit")
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        assert!(Self::cancel(self, key).won());
    }

    #[inline]
    fn launch(&mut self, delay: Duration, payload: u64) {
        self.schedule_key(delay, payload).expect("there is no limit");
    }
}

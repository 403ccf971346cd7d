//! A rate limiter with retries: so many calls per window, and a call that finds no token tries again after a pause
//! that doubles, with jitter, until it has tried often enough.
//!
//! ```text
//! cargo run --example limiter
//! ```
//!
//! One timer brings a token back and the same timer runs the retries: its handler is given the timer, so nothing
//! holds on to the engine, and no thread waits.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tickwheel::{BuildError, Builder, Expired, Timer};

/// Tokens per window: what the limit is.
const TOKENS: u32 = 10;
const WINDOW: Duration = Duration::from_millis(20);
/// The pause before the first retry.
const PAUSE: Duration = Duration::from_millis(4);
const MOST_TRIES: u32 = 8;

/// What the timers are for.
enum Event {
    TokenBack,
    Try { call: u32, tries: u32 },
}

/// The end of a call.
enum End {
    Made { tries: u32 },
    GivenUp,
}

fn limiter(ended: &Sender<(u32, End)>) -> Result<Timer<Event>, BuildError> {
    Builder::new().shards(1).build_per_shard(|_shard| {
        let (ended, mut tokens) = (ended.clone(), TOKENS);
        let end = move |call, end| ended.send((call, end)).expect("main listens until the end");
        move |timer: &Timer<Event>, expired: Expired<Event>| {
            let scheduled = match expired.payload {
                Event::TokenBack => return tokens += 1,
                Event::Try { call, tries } if tokens > 0 => {
                    tokens -= 1;
                    end(call, End::Made { tries });
                    timer.schedule(WINDOW, Event::TokenBack)
                }
                Event::Try {
                    call,
                    tries: MOST_TRIES,
                } => return end(call, End::GivenUp),
                Event::Try { call, tries } => timer.schedule(
                    pause(call, tries),
                    Event::Try {
                        call,
                        tries: tries + 1,
                    },
                ),
            };
            if let Err(error) = scheduled {
                eprintln!("{error}"); // the engine is stopped: `stop` has returned the other timers
            }
        }
    })
}

/// Between half of the doubled pause and all of it, so that those who were refused together do not come together.
fn pause(call: u32, tries: u32) -> Duration {
    let most = PAUSE * (1 << (tries - 1));
    let noise = RandomState::new().hash_one(call) % 1000;
    most / 2 + most / 2 * noise as u32 / 1000
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (ended, outcomes) = channel();
    let timer = limiter(&ended)?;
    let calls = 50;
    for call in 0..calls {
        timer.schedule(Duration::ZERO, Event::Try { call, tries: 1 })?;
    }
    let mut seen = vec![false; calls as usize];
    let (mut at_once, mut later, mut given_up) = (0, 0, 0);
    for (call, end) in outcomes.iter().take(calls as usize) {
        match end {
            End::Made { tries: 1 } => at_once += 1,
            End::Made { .. } => later += 1,
            End::GivenUp => given_up += 1,
        }
        assert!(
            !std::mem::replace(&mut seen[call as usize], true),
            "call {call} ended twice"
        );
    }
    println!("{at_once} calls at once, {later} later, {given_up} given up");
    assert!(at_once >= 1 && later >= 1 && at_once + later + given_up == calls);
    timer.stop()?;
    Ok(())
}

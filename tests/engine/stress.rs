//! The whole engine under random load on real threads: the model that the fuzzer uses, with panicking handlers
//! as well, in rounds drawn from a seed.
//!
//! `TICKWHEEL_STRESS=N` runs N times as long (about 4 s for 1), `TICKWHEEL_SEED=S` begins with seed S.

use crate::support::choices::case;
use crate::support::engine_threads::{Totals, WANTED, check_with_panics};
use crate::support::random::Random;
use crate::support::setup::{secs, stress};
use std::sync::mpsc;
use std::time::Instant;

/// One round; everything about it follows from the seed, except the interleaving.
fn round(seed: u64) -> Totals {
    let mut random = Random::new(seed);
    let length = 64 + random.below(20_000) as usize;
    let bytes = random.bytes(length);
    check_with_panics(&case(&bytes).expect("enough bytes for a case"))
}

/// The panics that the test wants are not worth a line each.
fn hush_wanted_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<&str>() != Some(&WANTED) {
            usual(info);
        }
    }));
}

#[test]
fn random_engines_under_random_load_end_every_timer_once() {
    hush_wanted_panics();
    let first = std::env::var("TICKWHEEL_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let first = first.unwrap_or(1_u64);
    let (start, length) = (Instant::now(), secs(stress(4)));
    let mut rounds = 0;
    let mut totals = Totals::default();
    while rounds < 20 || start.elapsed() < length {
        let seed = first + rounds;
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            sender.send(round(seed)).expect("somebody waits");
        });
        match receiver.recv_timeout(secs(120)) {
            Ok(round) => {
                totals.add(round);
                thread.join().expect("it has ended well");
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("the round with seed {seed} failed")
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the round with seed {seed} hangs"),
        }
        rounds += 1;
    }
    println!(
        "{rounds} rounds, seeds {first} to {}: {totals:?}",
        first + rounds - 1
    );
    assert!(
        totals.is_complete(),
        "some kind of end hardly happened: {totals:?}"
    );
}

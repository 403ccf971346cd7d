//! A thread that uses the engine in every way there is.

use super::books::{Books, Engine, Load, PERIODICS, any_delay};
use crate::common::{Random, us};
use std::sync::atomic::Ordering;
use tickwheel::{MissedTicks, Period, Timeout};

/// Steps of each producer.
pub(crate) const STEPS: u64 = 1_500;

/// One thread that uses the engine: timers `first..first + STEPS` are its own.
pub(crate) fn produce(books: &Books, engine: &Engine, first: u64, mut random: Random) {
    let mut held: Vec<(u64, Timeout<Load>)> = Vec::new();
    for id in first..first + STEPS {
        let delay = any_delay(&mut random);
        let load = books.begin(id, delay);
        if random.chance(70) {
            books.begun(id, engine.schedule_key(delay, load));
        } else {
            match engine.schedule(delay, load) {
                Err(error) => books.begun(id, Err(error)),
                Ok(timeout) if random.chance(40) => books.begun(id, Ok(timeout.detach())),
                Ok(timeout) => {
                    books.begun(id, Ok(timeout.key()));
                    held.push((id, timeout));
                }
            }
        }
        let (own, any) = (first + random.below(id + 1 - first), random.below(2 * books.timers()));
        match random.below(16) {
            0..5 => books.cancel(engine, any),
            5..7 => books.move_timer(engine, own, any_delay(&mut random), true),
            7 => books.move_timer(engine, any, any_delay(&mut random), false),
            8 if !held.is_empty() => {
                let (id, timeout) = held.swap_remove(random.below(held.len() as u64) as usize);
                if random.chance(50) {
                    books.cancelled(id, timeout.cancel());
                }
            }
            9 => begin_periodic(books, engine, random.below(PERIODICS), &mut random),
            10 => books.end_periodic(engine, random.below(PERIODICS)),
            11 if random.chance(20) => std::thread::sleep(us(random.below(300))),
            12 => std::thread::yield_now(),
            _ => {}
        }
    }
    for (id, timeout) in held {
        // Settled or not: the answers of a handle must agree with one another, and with the books in the end.
        let (expired, cancelled) = (timeout.is_expired(), timeout.is_cancelled());
        assert!(!(expired && cancelled), "timer {id} has ended twice by its handle");
    }
}

pub(crate) fn begin_periodic(books: &Books, engine: &Engine, n: u64, random: &mut Random) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let repeated = &books.repeated[n as usize];
    if repeated.key.get().is_some() {
        return;
    }
    let every = us(50 + random.below(2_000));
    let period = match random.below(4) {
        0 => Period::fixed_delay(every),
        1 => Period::fixed_rate(every, MissedTicks::Burst),
        2 => Period::fixed_rate(every, MissedTicks::Delay),
        _ => Period::fixed_rate(every, MissedTicks::Skip),
    };
    let load = Load::new(2 * books.timers() + n, &books.alive);
    match engine.schedule_periodic(any_delay(random), period.expect("not zero"), load) {
        Ok(key) => assert!(repeated.key.set(key).is_ok()),
        Err(error) => {
            books.refusals.fetch_add(1, Ordering::Relaxed);
            drop(error.into_payload());
        }
    }
}

//! Hedged requests from threads: where the first replica has not answered after 20 ms, a timer asks the second one. The
//! first answer counts, and a deadline ends the wait for both.
//!
//! ```text
//! cargo run --example hedging
//! ```
//!
//! Nearly all of these timers are cancelled: by the first answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tickwheel::Timer;

/// A little more than most answers take.
const HEDGE: Duration = Duration::from_millis(20);
const DEADLINE: Duration = Duration::from_secs(1);

/// A server that takes its time, and counts how often it is asked.
struct Replica {
    name: &'static str,
    takes: Duration,
    asked: AtomicU32,
    timer: Timer,
}

impl Replica {
    fn new(name: &'static str, takes: Duration, timer: &Timer) -> Arc<Self> {
        Arc::new(Self {
            name,
            takes,
            asked: AtomicU32::new(0),
            timer: timer.clone(),
        })
    }

    /// Asks it; the answer comes through `answer`, if it comes.
    fn ask(&self, answer: Sender<Option<&'static str>>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let name = self.name;
        // What a connection would do. Nobody may wait for the answer any more.
        let work = move || {
            let _ = answer.send(Some(name));
        };
        if let Err(refused) = self.timer.run_after(self.takes, work) {
            eprintln!("{name} is away: {refused}");
        }
    }
}

/// Returns the name of the replica that answered first; `None` if none did before the deadline.
fn hedged(
    timer: &Timer,
    first: &Replica,
    second: &Arc<Replica>,
) -> Result<Option<&'static str>, Box<dyn std::error::Error>> {
    let (answer, answers) = channel();
    first.ask(answer.clone());
    let (second, again) = (Arc::clone(second), answer.clone());
    let hedge = timer.run_after(HEDGE, move || second.ask(again))?;
    let give_up = move || {
        let _ = answer.send(None);
    };
    let deadline = timer.run_after(DEADLINE, give_up)?;
    let first = answers.recv()?;
    // Whether a cancel wins does not matter here: an answer that comes later is dropped with its channel.
    timer.cancel(hedge);
    timer.cancel(deadline);
    Ok(first)
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timer = Timer::new()?;
    // The servers' own time, which is no part of the client.
    let servers = Timer::new()?;
    let replica = |name, takes| Replica::new(name, takes, &servers);
    let quick = replica("quick", Duration::from_millis(1));
    let slow = replica("slow", Duration::from_secs(60));
    let dead = replica("dead", Duration::MAX);

    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (timer, quick, slow) = (timer.clone(), Arc::clone(&quick), Arc::clone(&slow));
            std::thread::spawn(move || {
                let start = Instant::now();
                let answer = hedged(&timer, &slow, &quick).expect("the engine runs");
                println!("asked the slow one: {answer:?} after {:?}", start.elapsed());
                assert!(start.elapsed() >= HEDGE, "never early");
                answer
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().expect("it does not panic"), Some("quick"));
    }
    assert_eq!(quick.asked.load(Ordering::Relaxed), 4);

    let start = Instant::now();
    assert_eq!(hedged(&timer, &dead, &dead)?, None);
    println!("asked two dead ones: given up after {:?}", start.elapsed());
    assert!(start.elapsed() >= DEADLINE, "never early");
    assert_eq!(timer.pending(), 0, "no timer is left behind");
    Ok(())
}

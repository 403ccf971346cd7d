//! A purgatory, as a message broker has one: requests that cannot be answered yet wait for an event or for their
//! timeout, whichever comes first, and are answered exactly once.
//!
//! ```text
//! cargo run --example purgatory
//! ```
//!
//! The request is the payload of its timer. An event that may complete it looks it up by key and cancels the timer:
//! who wins the cancel has the request, and answers it; the handler has those that nobody won.

use std::collections::HashMap;
use std::error::Error;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwheel::{BuildError, Builder, Expired, ScheduleError, Timer, TimerHandle};

type Partition = u32;

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// There are so many bytes in this partition.
    Bytes(Partition, u64),
    TimedOut,
}

/// A consumer's request, to be answered as soon as one of its partitions holds `least` bytes.
struct Fetch {
    least: u64,
    reply: Sender<Answer>,
}

impl Fetch {
    fn answer(self, answer: Answer) {
        // A consumer that has gone away wants no answer.
        drop(self.reply.send(answer));
    }
}

#[derive(Default)]
struct Log {
    bytes: u64,
    /// Who waits for how many bytes. A request that waits for several partitions is in the list of each.
    waiting: Vec<(u64, Arc<TimerHandle<Fetch>>)>,
}

struct Purgatory {
    timer: Timer<Fetch>,
    logs: Mutex<HashMap<Partition, Log>>,
}

impl Purgatory {
    fn new() -> Result<Self, BuildError> {
        let answer = |late: Expired<Fetch>| late.payload.answer(Answer::TimedOut);
        Ok(Self { timer: Builder::new().shards(1).build_with(answer)?, logs: Mutex::default() })
    }

    /// Answers `fetch` now, or when there are bytes enough in one of `partitions`, or after `limit`.
    fn fetch(
        &self,
        fetch: Fetch,
        partitions: [Partition; 2],
        limit: Duration,
    ) -> Result<(), ScheduleError<Fetch>> {
        // Held until the request is in its lists, so that no event is missed in between.
        let mut logs = self.logs.lock().expect("nobody panics with the lock");
        for partition in partitions {
            let bytes = logs.entry(partition).or_default().bytes;
            if bytes >= fetch.least {
                fetch.answer(Answer::Bytes(partition, bytes));
                return Ok(());
            }
        }
        let least = fetch.least;
        let timeout = Arc::new(self.timer.schedule(limit, fetch)?);
        for partition in partitions {
            let log = logs.entry(partition).or_default();
            log.waiting.push((least, Arc::clone(&timeout)));
        }
        Ok(())
    }

    /// Bytes have come: answers whoever waited for them, and forgets whoever has been answered elsewhere.
    fn append(&self, partition: Partition, bytes: u64) {
        let mut ready = Vec::new();
        let mut logs = self.logs.lock().expect("nobody panics with the lock");
        let log = logs.entry(partition).or_default();
        log.bytes += bytes;
        let bytes = log.bytes;
        log.waiting.retain(|(least, timeout)| {
            if *least <= bytes {
                ready.extend(timeout.cancel().into_payload());
            }
            timeout.is_pending()
        });
        drop(logs);
        ready.into_iter().for_each(|fetch| fetch.answer(Answer::Bytes(partition, bytes)));
    }

    /// Sends a hundred requests one after the other; how many were answered with bytes, and how many timed out.
    fn consume(&self, consumer: u32) -> Result<(u32, u32), Box<dyn Error + Send + Sync>> {
        let (mut served, mut late) = (0, 0);
        for n in 0..100 {
            let (reply, answers) = channel();
            // Every fourth one waits for what never comes.
            let least = if n % 4 == 3 { u64::MAX } else { n * 25 };
            let partitions = [consumer % 4, (consumer + 1) % 4];
            self.fetch(Fetch { least, reply }, partitions, Duration::from_millis(2))?;
            match answers.recv()? {
                Answer::Bytes(partition, bytes) => {
                    assert!(partitions.contains(&partition) && bytes >= least);
                    served += 1;
                }
                Answer::TimedOut => late += 1,
            }
            assert!(answers.recv().is_err(), "one answer, and then nobody has the request");
        }
        Ok((served, late))
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let purgatory = Purgatory::new()?;
    let (mut served, mut late) = (0, 0);
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn({
                    let purgatory = &purgatory;
                    move || purgatory.consume(n)
                })
            })
            .collect();
        for n in 0..1000 {
            purgatory.append(n % 4, 10);
            std::thread::sleep(Duration::from_micros(50));
        }
        for consumer in consumers {
            let (bytes, timeouts) = consumer.join().expect("no consumer panics")?;
            (served, late) = (served + bytes, late + timeouts);
        }
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })?;
    println!("{served} requests were served, {late} timed out");
    assert!(served + late == 800 && served >= 8 && late >= 200);
    assert!(purgatory.timer.stop()?.is_empty(), "each request has been answered");
    Ok(())
}

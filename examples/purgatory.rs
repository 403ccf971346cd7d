//! A purgatory, as a message broker has one: requests that cannot be answered yet wait for an event or for their
//! timeout, whichever comes first, and are answered exactly once.
//!
//! ```text
//! cargo run --example purgatory
//! ```
//!
//! The request is the payload of its timer. An event that completes it cancels the timer: who wins the cancel has the
//! request, and answers it; the handler has those that nobody won.

use std::error::Error;
use std::sync::Mutex;
use std::sync::mpsc::{RecvError, Sender, channel};
use std::thread;
use std::time::Duration;
use tickwheel::{Builder, Expired, Key, Timer};

/// A consumer's request, to be answered with how many bytes there are, or with `None` at its timeout.
///
/// Sending fails if the consumer has gone away; then it wants no answer.
type Fetch = Sender<Option<u64>>;

#[derive(Default)]
struct Log {
    bytes: u64,
    /// Who waits for how many bytes.
    waiting: Vec<(u64, Key<Fetch>)>,
    /// How many were still waiting when the list was last cleaned.
    cleaned: usize,
}

struct Purgatory {
    timer: Timer<Fetch>,
    log: Mutex<Log>,
}

impl Purgatory {
    /// Answers `fetch` now, or when there are `least` bytes, or after `limit`.
    fn fetch(&self, fetch: Fetch, least: u64, limit: Duration) {
        // Held until the request is in the list, so that no event is missed in between.
        let mut log = self.log.lock().expect("nobody panics with the lock");
        if log.bytes >= least {
            _ = fetch.send(Some(log.bytes));
            return;
        }
        // A topic to which nobody writes must not keep every request that times out. Cleaning a list only when it has
        // doubled costs each request a constant.
        if log.waiting.len() > 2 * log.cleaned + 16 {
            log.waiting
                .retain(|(_, timeout)| self.timer.is_pending(*timeout));
            log.cleaned = log.waiting.len();
        }
        match self.timer.schedule(limit, fetch) {
            Ok(timeout) => log.waiting.push((least, timeout)),
            Err(refused) => _ = refused.into_payload().send(None),
        }
    }

    /// Sends requests in rounds of a hundred for what never comes; returns how many are left in the list.
    fn wait_in_vain(&self, rounds: u32) -> usize {
        for _ in 0..rounds {
            let (fetch, answers) = channel();
            (0..100).for_each(|_| self.fetch(fetch.clone(), u64::MAX, Duration::ZERO));
            drop(fetch);
            assert_eq!(answers.iter().filter(Option::is_none).count(), 100);
        }
        let log = self.log.lock().expect("nobody panics with the lock");
        log.waiting.len()
    }

    /// Bytes have come: answers whoever waited for them, and forgets whoever has timed out.
    fn append(&self, bytes: u64) {
        let mut log = self.log.lock().expect("nobody panics with the lock");
        log.bytes += bytes;
        let bytes = log.bytes;
        log.waiting.retain(|(least, timeout)| {
            if *least <= bytes {
                let fetch = self.timer.cancel(*timeout).into_payload();
                fetch
                    .into_iter()
                    .for_each(|fetch| _ = fetch.send(Some(bytes)));
            }
            self.timer.is_pending(*timeout)
        });
    }

    /// Sends a hundred requests one after the other; returns how many timed out.
    fn consume(&self) -> Result<u32, RecvError> {
        let mut late = 0;
        for n in 0..100 {
            let (fetch, answers) = channel();
            // Every fourth one waits for what never comes.
            let least = if n % 4 == 3 { u64::MAX } else { n * 100 };
            self.fetch(fetch, least, Duration::from_millis(2));
            match answers.recv()? {
                Some(bytes) => assert!(bytes >= least),
                None => late += 1,
            }
            assert!(
                answers.recv().is_err(),
                "one answer, and then nobody has the request"
            );
        }
        Ok(late)
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let time_out = |late: Expired<Fetch>| _ = late.payload.send(None);
    let timer = Builder::new().shards(1).build_with(time_out)?;
    let purgatory = Purgatory {
        timer,
        log: Mutex::default(),
    };
    let left = purgatory.wait_in_vain(20);
    assert!(
        left <= 300,
        "{left} of 2000 requests outlived their timeout"
    );
    let late = thread::scope(|scope| {
        let consumers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| purgatory.consume()))
            .collect();
        for _ in 0..1000 {
            purgatory.append(10);
            thread::sleep(Duration::from_micros(50));
        }
        let ends = consumers
            .into_iter()
            .map(|consumer| consumer.join().expect("none panics"));
        ends.sum::<Result<u32, _>>()
    })?;
    println!("{} requests were served, {late} timed out", 800 - late);
    assert!((200..=792).contains(&late));
    assert!(
        purgatory.timer.stop()?.is_empty(),
        "each request has been answered"
    );
    Ok(())
}

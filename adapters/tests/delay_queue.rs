//! `DelayQueue` and tokio-util's side by side: what is the same, and the stream.

use smol::stream::{Stream, StreamExt};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Drive, Key, ManualClock, MissedTicks, Pinning, Timer};
use tickwheel_util::{DelayQueue, IntervalStream};
use tokio_util::time::delay_queue;

const MS: Duration = Duration::from_millis(1);

/// One queue of each kind with the same items, on clocks that are moved together.
struct Pair {
    clock: ManualClock,
    timer: Timer,
    ours: DelayQueue<u64>,
    theirs: delay_queue::DelayQueue<u64>,
    keys: BTreeMap<u64, (Key<u64>, delay_queue::Key)>,
}

impl Pair {
    fn new() -> Self {
        let clock = ManualClock::new();
        let builder = Builder::new().shards(1).pinning(Pinning::Off).drive(Drive::Manual);
        let timer = builder.clock(clock.clone()).build().unwrap();
        let ours = DelayQueue::on(&timer);
        Self { clock, timer, ours, theirs: delay_queue::DelayQueue::new(), keys: BTreeMap::new() }
    }

    fn insert(&mut self, item: u64, delay: Duration) {
        let keys = (self.ours.insert(item, delay), self.theirs.insert(item, delay));
        self.keys.insert(item, keys);
    }

    fn remove(&mut self, item: u64) {
        if let Some((our, their)) = self.keys.remove(&item) {
            assert_eq!(self.ours.remove(our), Some(self.theirs.remove(&their).into_inner()));
        }
    }

    fn reset(&mut self, item: u64, delay: Duration) {
        if let Some((our, their)) = self.keys.get(&item) {
            assert!(self.ours.reset(*our, delay).moved());
            self.theirs.reset(their, delay);
        }
    }

    async fn pass(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.clock.advance(time);
        self.timer.turn().unwrap();
    }

    /// What comes out of both now, in any order, and whether that was all.
    async fn take(&mut self) -> ([Vec<u64>; 2], [bool; 2]) {
        let (mut taken, mut empty) = ([vec![], vec![]], [false; 2]);
        poll_fn(|cx| {
            while let Poll::Ready(expired) = self.ours.poll_expired(cx) {
                let Some(expired) = expired else {
                    empty[0] = true;
                    break;
                };
                taken[0].push(expired.unwrap().payload);
            }
            while let Poll::Ready(expired) = self.theirs.poll_expired(cx) {
                let Some(expired) = expired else {
                    empty[1] = true;
                    break;
                };
                taken[1].push(expired.into_inner());
            }
            Poll::Ready(())
        })
        .await;
        taken.iter_mut().for_each(|items| items.sort_unstable());
        self.keys.retain(|item, _| !taken[0].contains(item));
        (taken, empty)
    }
}

/// A state that no other seed leads to soon.
fn seed_of(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// xorshift64*.
fn below(random: &mut u64, bound: u64) -> u64 {
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    (random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
}

#[tokio::test(start_paused = true)]
async fn both_queues_give_the_same_items_at_the_same_times() {
    for seed in 1..20 {
        let (mut pair, random) = (Pair::new(), &mut seed_of(seed));
        for number in 0..600 {
            let delay = MS * below(random, 200) as u32;
            let item = below(random, number + 1);
            match below(random, 100) {
                0..35 => pair.insert(number, delay),
                35..50 => pair.remove(item),
                50..65 => pair.reset(item, delay),
                _ => {
                    pair.pass(MS * below(random, 20) as u32).await;
                    let ([ours, theirs], [our_end, their_end]) = pair.take().await;
                    assert_eq!((ours, our_end), (theirs, their_end), "seed {seed}, step {number}");
                }
            }
            assert_eq!(
                (pair.ours.len(), pair.ours.is_empty()),
                (pair.theirs.len(), pair.theirs.is_empty())
            );
        }
    }
}

#[test]
fn queues_and_intervals_are_streams() {
    smol::block_on(async {
        let start = Instant::now();
        let mut queue = DelayQueue::new();
        for number in [3, 1, 2] {
            queue.insert(number, 4 * MS * number);
        }
        let numbers: Vec<_> = (&mut queue).map(|expired| expired.unwrap().payload).collect().await;
        assert_eq!(numbers, [1, 2, 3]);
        assert!(start.elapsed() >= 12 * MS && queue.next().await.is_none());

        let start = Instant::now();
        let beats = tickwheel::interval(3 * MS).missed_ticks(MissedTicks::Burst);
        let beats = IntervalStream(beats);
        assert_eq!(beats.size_hint(), (usize::MAX, None));
        let beats: Vec<_> = beats.take(4).collect().await;
        assert!(beats.windows(2).all(|pair| pair[1] - pair[0] == 3 * MS), "{beats:?}");
        assert!(start.elapsed() >= 9 * MS);
    });
}

/// Two tasks share a queue: who waits for items is woken by what the other one does.
#[test]
fn a_queue_behind_a_lock_serves_two_tasks() {
    use std::sync::{Arc, Mutex};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        let far = queue.lock().unwrap().insert(u32::MAX, 3600 * 1000 * MS);
        let taker = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move {
                let mut taken = 0;
                while let Some(expired) = poll_fn(|cx| queue.lock().unwrap().poll_expired(cx)).await
                {
                    expired.unwrap();
                    taken += 1;
                }
                taken
            }
        });
        for number in 0..200 {
            queue.lock().unwrap().insert(number, MS * (number % 7));
            if number % 16 == 0 {
                tickwheel::sleep(MS).await;
            }
        }
        tickwheel::sleep(20 * MS).await;
        assert_eq!(queue.lock().unwrap().remove(far), Some(u32::MAX));
        assert_eq!(taker.await.unwrap(), 200, "ended by the last item's removal");
    });
}

#[test]
fn items_can_be_seen_and_the_next_one_named() {
    let mut queue = DelayQueue::new();
    assert!(queue.peek().is_none() && queue.iter().next().is_none());
    let late = queue.insert("late", Duration::from_secs(20));
    let early = queue.insert("early", Duration::from_secs(10));
    assert_eq!(queue.peek(), Some(early));
    queue.reset(early, Duration::from_secs(30));
    assert_eq!(queue.peek(), Some(late));
    let mut items: Vec<_> = queue.iter().map(|(key, due, item)| (due, key, *item)).collect();
    items.sort_by_key(|item| item.0);
    assert_eq!(
        items.iter().map(|item| (item.1, item.2)).collect::<Vec<_>>(),
        [(late, "late"), (early, "early")]
    );
    queue.compact();
    assert_eq!(queue.get(late), Some(&"late"), "keys stay as they are");
}

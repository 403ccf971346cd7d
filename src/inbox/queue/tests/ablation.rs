//! Other queues in the inbox's place: what do epoch-protected blocks buy? A measurement, not a check:
//!
//! ```sh
//! cargo test --release --lib ablation -- --ignored --nocapture
//! ```

use super::super::*;
use cordyceps::Linked;
use cordyceps::mpsc_queue::{Links, MpscQueue};
use crossbeam_queue::SegQueue;
use std::hint::black_box;
use std::sync::{Barrier, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Messages that gather before they are drained, as in a staging buffer.
const GATHERED: u64 = 16 * 1024;
const ROUNDS: u32 = 60;
/// Messages of all producers together, in the runs with threads.
const MESSAGES: u64 = 4_000_000;
const REPEATS: usize = 7;

fn message(word: u64) -> Message {
    Message { tick: word, word }
}

/// A message in an intrusive list after Vyukov: one allocation each.
struct Linkable {
    links: Links<Self>,
    message: Message,
}

// SAFETY: the messages are boxed and do not move while they are linked; the links are where `links` says.
unsafe impl Linked<Links<Self>> for Linkable {
    type Handle = Box<Self>;

    fn into_ptr(handle: Box<Self>) -> NonNull<Self> {
        NonNull::from(Box::leak(handle))
    }

    unsafe fn from_ptr(ptr: NonNull<Self>) -> Box<Self> {
        // SAFETY: it comes from `into_ptr`.
        unsafe { Box::from_raw(ptr.as_ptr()) }
    }

    unsafe fn links(target: NonNull<Self>) -> NonNull<Links<Self>> {
        // SAFETY: the target is alive; no reference to the whole of it is made.
        unsafe { NonNull::new_unchecked(&raw mut (*target.as_ptr()).links) }
    }
}

/// Nanoseconds per message: pushing and draining by one thread in turn; then one and two producers beside a
/// reader.
#[derive(Default)]
struct Figures([Vec<f64>; 4]);

fn nanos(taken: Duration, messages: u64) -> f64 {
    taken.as_nanos() as f64 / messages as f64
}

/// `make` makes a queue: its two ends. The reader's end takes what there is and says how much that was.
fn measure<P, D>(figures: &mut Figures, make: impl Fn() -> (P, D))
where
    P: Fn(Message) + Sync,
    D: FnMut() -> u64 + Send,
{
    let (push, mut drain) = make();
    let (mut pushing, mut draining) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..GATHERED).for_each(|word| push(message(word)));
        let middle = Instant::now();
        assert_eq!(drain(), GATHERED);
        pushing += middle - start;
        draining += middle.elapsed();
    }
    figures.0[0].push(nanos(pushing, GATHERED * u64::from(ROUNDS)));
    figures.0[1].push(nanos(draining, GATHERED * u64::from(ROUNDS)));
    for producers in 1..=2 {
        let (push, mut drain) = make();
        let ready = Barrier::new(producers + 1);
        let taken = std::thread::scope(|scope| {
            for _ in 0..producers {
                scope.spawn(|| {
                    ready.wait();
                    (0..MESSAGES / producers as u64).for_each(|word| push(message(word)));
                });
            }
            ready.wait();
            let start = Instant::now();
            let mut read = 0;
            while read < MESSAGES {
                // As a shard's owner does, it comes when some have gathered.
                std::thread::sleep(Duration::from_micros(200));
                read += drain();
            }
            start.elapsed()
        });
        figures.0[1 + producers].push(nanos(taken, MESSAGES));
    }
}

fn blocks(figures: &mut Figures) {
    measure(figures, || {
        let (inbox, mut reader) = Inbox::new();
        let inbox = Arc::new(inbox);
        let read = Arc::clone(&inbox);
        let push = move |message| assert_ne!(inbox.push(message), Pushed::Closed);
        let drain = move || {
            let drained = reader.drain(&read, usize::MAX, |message| _ = black_box(message));
            drained.taken as u64
        };
        (push, drain)
    });
}

fn seg_queue(figures: &mut Figures) {
    measure(figures, || {
        let queue = Arc::new(SegQueue::new());
        let read = Arc::clone(&queue);
        let drain = move || {
            let mut taken = 0;
            while let Some(message) = read.pop() {
                black_box(message);
                taken += 1;
            }
            taken
        };
        (move |message| queue.push(message), drain)
    });
}

fn vyukov(figures: &mut Figures) {
    measure(figures, || {
        let boxed = |message| Box::new(Linkable { links: Links::new(), message });
        let queue = Arc::new(MpscQueue::<Linkable>::new_with_stub(boxed(message(0))));
        let read = Arc::clone(&queue);
        let drain = move || {
            let consumer = read.consume();
            let mut taken = 0;
            while let Some(linkable) = consumer.dequeue() {
                black_box(linkable.message);
                taken += 1;
            }
            taken
        };
        (move |message| queue.enqueue(boxed(message)), drain)
    });
}

fn channel(figures: &mut Figures) {
    measure(figures, || {
        let (sender, receiver) = mpsc::channel();
        let drain = move || {
            let mut taken = 0;
            receiver.try_iter().for_each(|message| {
                black_box(message);
                taken += 1;
            });
            taken
        };
        (move |message| sender.send(message).unwrap(), drain)
    });
}

fn locked(figures: &mut Figures) {
    measure(figures, || {
        let queue = Arc::new(Mutex::new(Vec::new()));
        let (read, mut spare) = (Arc::clone(&queue), Vec::new());
        let drain = move || {
            std::mem::swap(&mut *read.lock().unwrap(), &mut spare);
            let taken = spare.len() as u64;
            spare.drain(..).for_each(|message| _ = black_box(message));
            taken
        };
        (move |message| queue.lock().unwrap().push(message), drain)
    });
}

#[test]
#[ignore = "a measurement"]
fn queues() {
    type Measure = fn(&mut Figures);
    let all: [(&str, Measure); 5] = [
        ("epoch-protected blocks (the inbox)", blocks),
        ("crossbeam SegQueue", seg_queue),
        ("Vyukov's list (cordyceps), boxed", vyukov),
        ("std mpsc channel", channel),
        ("Mutex<Vec>, swapped", locked),
    ];
    let mut figures: [Figures; 5] = Default::default();
    for _ in 0..REPEATS {
        for ((_, measure), figures) in all.iter().zip(&mut figures) {
            measure(figures);
        }
    }
    println!(
        "| | push | drain | 1 producer + reader | 2 producers + reader |\n|---|---:|---:|---:|---:|"
    );
    for ((name, _), Figures(figures)) in all.iter().zip(&mut figures) {
        let medians = figures.each_mut().map(|samples| {
            samples.sort_by(f64::total_cmp);
            format!("{:.1}", samples[REPEATS / 2])
        });
        println!("| {name} | {} |", medians.join(" | "));
    }
}

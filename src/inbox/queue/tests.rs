//! The queue on real threads, and the cases that can be forced by hand.

use super::*;

mod ablation;

fn message(word: u64) -> Message {
    Message { tick: word * 3, word }
}

#[test]
fn keeps_order_across_blocks_and_retires_them() {
    let (inbox, mut reader) = Inbox::new();
    let first = reader.head.as_ptr();
    let mut expected = 0;
    for round in 0..50 {
        for word in round * 100..(round + 1) * 100 {
            assert_ne!(inbox.push(message(word)), Pushed::Closed);
        }
        let drained = reader.drain(&inbox, usize::MAX, |got| {
            assert_eq!(got, message(expected));
            expected += 1;
        });
        assert_eq!((drained.taken, drained.more, drained.hole), (100, false, false));
    }
    assert_eq!(reader.taken, 5000);
    assert!(inbox.head.load(Ordering::Relaxed) != first, "exhausted blocks are retired");
}

#[test]
fn the_limit_leaves_the_rest_for_later() {
    let (inbox, mut reader) = Inbox::new();
    for word in 0..1500 {
        assert_ne!(inbox.push(message(word)), Pushed::Closed);
    }
    let mut got = Vec::new();
    while reader.drain(&inbox, 7, |m| got.push(m.word)).more {}
    assert_eq!(got, (0..1500).collect::<Vec<_>>());
}

#[test]
fn a_hole_delays_only_its_own_message() {
    let (inbox, mut reader) = Inbox::new();
    assert_ne!(inbox.push(message(1)), Pushed::Closed);
    // A producer that is preempted between claim and publish.
    // SAFETY: one thread; the block lives as long as the inbox has not retired it.
    let block = unsafe { reader.head.as_ref() };
    let Claim::Slot(hole) = block.claim() else { panic!("the block has room") };
    for word in 2..2000 {
        assert_ne!(inbox.push(message(word)), Pushed::Closed);
    }
    let mut got = Vec::new();
    let drained = reader.drain(&inbox, usize::MAX, |m| got.push(m.word));
    assert!(drained.hole && !drained.more);
    assert_eq!(got, (1..2000).collect::<Vec<_>>(), "everything but the hole, over several blocks");
    assert_eq!(reader.drain(&inbox, usize::MAX, |_| panic!("nothing twice")).taken, 0);
    block.publish(hole, message(5000));
    got.clear();
    let drained = reader.drain(&inbox, usize::MAX, |m| got.push(m.word));
    assert_eq!((got, drained.hole), (vec![5000], false));
}

/// The producer of the hole goes on while the reader is in a later block: its next messages wait.
#[test]
fn a_hole_is_not_overtaken_by_its_own_producer() {
    let (inbox, mut reader) = Inbox::new();
    // SAFETY: one thread; the block lives as long as the inbox has not retired it.
    let block = unsafe { reader.head.as_ref() };
    let Claim::Slot(hole) = block.claim() else { panic!("the block has room") };
    for word in 1..SLOTS as u64 + 10 {
        assert_ne!(inbox.push(message(word)), Pushed::Closed);
    }
    let mut got = Vec::new();
    let drained = reader.drain(&inbox, usize::MAX, |m| {
        if m.word == SLOTS as u64 {
            block.publish(hole, message(5000));
            assert_ne!(inbox.push(message(5001)), Pushed::Closed);
        }
        got.push(m.word);
    });
    assert!(drained.hole);
    assert_eq!(got, (1..SLOTS as u64 + 10).collect::<Vec<_>>());
    got.clear();
    let drained = reader.drain(&inbox, usize::MAX, |m| got.push(m.word));
    assert_eq!((got, drained.hole), (vec![5000, 5001], false));
}

#[test]
fn close_refuses_what_comes_after_and_keeps_what_came_before() {
    for before in [0, 1, 511, 512, 513, 1024] {
        let (inbox, mut reader) = Inbox::new();
        for word in 1..=before {
            assert_ne!(inbox.push(message(word)), Pushed::Closed);
        }
        inbox.close(&reader);
        for _ in 0..1100 {
            assert_eq!(inbox.push(message(9)), Pushed::Closed);
        }
        assert_eq!(reader.drain(&inbox, usize::MAX, |_| ()).taken as u64, before);
    }
}

#[test]
fn racing_producers_and_a_close_lose_nothing() {
    for _ in 0..200 {
        let (inbox, mut reader) = Inbox::new();
        let (accepted, mut taken) = std::thread::scope(|scope| {
            let producers: Vec<_> = (0..2)
                .map(|producer: u64| {
                    let inbox = &inbox;
                    scope.spawn(move || {
                        (0u64..50_000_000)
                            .take_while(|n| {
                                inbox.push(message(producer << 32 | n)) != Pushed::Closed
                            })
                            .count()
                    })
                })
                .collect();
            let mut next = [0u64; 2];
            let mut taken = 0;
            while taken < 3000 {
                taken += reader
                    .drain(&inbox, 1000, |m| {
                        let producer = (m.word >> 32) as usize;
                        assert_eq!(m.word & 0xffff_ffff, next[producer], "order per producer");
                        next[producer] += 1;
                    })
                    .taken;
            }
            inbox.close(&reader);
            (producers.into_iter().map(|p| p.join().unwrap()).sum::<usize>(), taken)
        });
        taken += reader.drain(&inbox, usize::MAX, |_| ()).taken;
        assert_eq!(taken, accepted);
    }
}

//! A handler of its own for each shard: handlers own what they change, so they need no locks.

use std::sync::mpsc;
use std::time::Duration;
use tickwheel::{Builder, Expired, Timer};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (sender, sums) = mpsc::channel();
    let timer = Builder::new().shards(2).build_per_shard(|shard| {
        let sender = sender.clone();
        // Belongs to this shard's worker alone.
        let (mut fired, mut sum) = (0_u64, 0_u64);
        move |_: &Timer<u64>, expired: Expired<u64>| {
            fired += 1;
            sum += expired.payload;
            sender
                .send((shard, fired, sum))
                .expect("main listens until the end");
        }
    })?;
    // A thread keeps to one shard, so several threads share no lock and no counter.
    std::thread::scope(|scope| {
        for first in [1, 501] {
            let timer = timer.clone();
            scope.spawn(move || {
                for payload in first..first + 500 {
                    let scheduled = timer.schedule(Duration::from_millis(5), payload);
                    scheduled.expect("the engine runs and has no limit");
                }
            });
        }
    });

    let mut latest = [(0, 0); 2];
    for (shard, fired, sum) in sums.iter().take(1000) {
        latest[shard] = (fired, sum);
    }
    println!("fired and sum by shard: {latest:?}");
    assert_eq!(latest[0].0 + latest[1].0, 1000);
    assert_eq!(latest[0].1 + latest[1].1, (1..=1000).sum());
    Ok(())
}

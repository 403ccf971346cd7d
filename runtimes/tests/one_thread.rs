//! `tickwheel_util::time` on a runtime of tokio with one thread, on the machine's clock. With the feature `test-util`,
//! which the tests of `tickwheel-util` have, such a runtime has tokio's clock.
#![cfg(target_os = "linux")]

use std::future::pending;
use std::time::{Duration, Instant};
use tickwheel_util::time::{interval, sleep, timeout};
use tokio::runtime::Builder;

const MS: Duration = Duration::from_millis(1);

/// Returns whether the process has a thread that turns an engine.
fn has_worker() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        // A thread may have ended meanwhile.
        std::fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default()
    };
    threads.map(name).any(|name| name.starts_with("tick"))
}

#[test]
fn a_runtime_of_one_thread_turns_its_engine_without_a_worker() {
    // Even a panic that is caught would end the process.
    std::panic::set_hook(Box::new(|_| std::process::exit(3)));
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let tasks = (0..200).map(|n| {
            tokio::spawn(async move {
                for round in 0..5 {
                    let (delay, start) = (MS / 10 * (n * 7 % 90 + round), Instant::now());
                    sleep(delay).await;
                    assert!(start.elapsed() >= delay, "early");
                }
                assert!(timeout(2 * MS, pending::<()>()).await.is_err());
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let (mut beat, start) = (interval(2 * MS), Instant::now());
        for _ in 0..5 {
            beat.tick().await;
        }
        assert!(start.elapsed() >= 8 * MS, "early");

        // Another thread sets a timer that comes before all others.
        let far = tokio::spawn(sleep(3_600_000 * MS));
        let early = || futures_lite::future::block_on(sleep(20 * MS));
        tokio::task::spawn_blocking(early).await.unwrap();
        far.abort();
    });
    assert!(!has_worker());
}

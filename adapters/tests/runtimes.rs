//! The same futures on tokio's two runtimes, on smol, and on a runtime whose tasks move between threads.

use std::future::pending;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Elapsed, ManualClock, Pinning};

const MS: Duration = Duration::from_millis(1);

/// What holds on every runtime.
async fn futures_keep_their_promises() {
    let start = Instant::now();
    tickwheel::sleep(5 * MS).await;
    assert!(start.elapsed() >= 5 * MS);

    assert_eq!(tickwheel::timeout(3600 * 1000 * MS, async { 7 }).await, Ok(7));
    let slow = tickwheel::timeout(5 * MS, pending::<()>()).await;
    assert_eq!(slow, Err(Elapsed));

    let start = Instant::now();
    let mut interval = tickwheel::interval(2 * MS);
    for _ in 0..5 {
        interval.tick().await;
    }
    assert!(start.elapsed() >= 8 * MS);

    let start = Instant::now();
    let mut idle = tickwheel::sleep(10 * MS);
    assert!(tickwheel::timeout(5 * MS, &mut idle).await.is_err());
    idle.reset(10 * MS);
    idle.await;
    assert!(start.elapsed() >= 15 * MS, "the reset counts from when it was called");
}

#[test]
fn on_tokio_in_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(futures_keep_their_promises());
}

#[test]
fn on_tokio_in_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100).map(|_| tokio::spawn(futures_keep_their_promises())).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn on_smol() {
    smol::block_on(async {
        let tasks: Vec<_> = (0..100).map(|_| smol::spawn(futures_keep_their_promises())).collect();
        for task in tasks {
            task.await;
        }
    });
}

/// Two timers in one `select`: the future that moves between tasks is woken at the one that polled it last.
#[test]
fn a_sleep_that_moves_to_another_task_wakes_that_one() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        for _ in 0..50 {
            let mut sleep = tickwheel::sleep(3 * MS);
            let first = tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = &mut sleep => {}
                    () = tokio::task::yield_now() => {}
                }
                [sleep]
            });
            let [sleep] = first.await.unwrap();
            tokio::spawn(sleep).await.unwrap();
        }
    });
}

/// Time stands on a runtime of many threads until the test moves it.
#[test]
fn a_manual_clock_drives_a_runtime_of_many_threads() {
    let clock = ManualClock::new();
    let timer = Builder::new().shards(2).pinning(Pinning::Off).clock(clock.clone());
    let timer = timer.build().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (1..=100_u32)
        .map(|hours| {
            let sleep = timer.sleep(hours * 3600 * 1000 * MS);
            runtime.spawn(async move {
                sleep.await.unwrap();
                hours
            })
        })
        .collect();
    while timer.pending() < 100 {
        std::thread::yield_now();
    }
    clock.advance(50 * 3600 * 1000 * MS);
    timer.wait_idle();
    assert_eq!(timer.stats().fired(), 50);
    clock.advance(50 * 3600 * 1000 * MS);
    for (task, hours) in tasks.into_iter().zip(1..) {
        assert_eq!(runtime.block_on(task).unwrap(), hours);
    }
}

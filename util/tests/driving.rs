//! Engines whose shards the tasks of a runtime turn.

use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, Pinning, Timer, TurnError};
use tickwheel_util::tokio_rt::drive;
use tokio::runtime::{Builder as Runtime, Runtime as Tokio};

const MS: Duration = Duration::from_millis(1);

fn engine(shards: usize) -> Builder {
    Builder::new().shards(shards).pinning(Pinning::Off)
}

fn two_threads() -> Tokio {
    Runtime::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn timers_fire_on_the_runtime_until_it_shuts_down() {
    let (sender, threads) = mpsc::channel();
    let note = move |_: Expired<()>| sender.send(std::thread::current().id()).unwrap();
    let timer = engine(2).build_with(note).unwrap();
    let of_runtime = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&of_runtime);
    let runtime = Runtime::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || started.lock().unwrap().push(std::thread::current().id()))
        .build()
        .unwrap();
    let fires_on_runtime = || {
        let thread = threads
            .recv_timeout(Duration::from_secs(60))
            .expect("a timer is missing");
        of_runtime.lock().unwrap().contains(&thread)
    };
    let tasks = runtime.block_on(async { drive(&timer).unwrap() });
    assert_eq!(tasks.len(), 2);
    for n in 1..=4 {
        // From threads outside of it, each with a timer that is earlier than what was there.
        let timer = timer.clone();
        std::thread::spawn(move || timer.schedule(20 * MS / n, ()).unwrap());
    }
    assert!((0..4).all(|_| fires_on_runtime()));

    timer.schedule(50 * MS, ()).unwrap();
    drop(runtime);
    assert!(!fires_on_runtime(), "a worker has taken over");
    assert!(tasks.into_iter().all(|task| task.is_finished()));
}

#[test]
fn sleeps_of_a_driven_engine_are_never_early() {
    let timer: Timer = engine(1).build().unwrap();
    let one_thread = Runtime::new_current_thread().enable_all().build().unwrap();
    for runtime in [two_threads(), one_thread] {
        runtime.block_on(async {
            let driving = drive(&timer).unwrap();
            let tasks = (0..2000).map(|n| {
                let timer = timer.clone();
                tokio::spawn(async move {
                    for round in 0..5 {
                        let delay = Duration::from_micros((n * 37 + round * 411) % 20_000);
                        let start = Instant::now();
                        timer.sleep(delay).await.unwrap();
                        assert!(start.elapsed() >= delay);
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.unwrap();
            }
            for task in driving {
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
            }
        });
    }
    assert!(timer.stats().fired > 10_000, "most have waited for a timer");
}

#[test]
fn a_second_runtime_is_refused_and_sleeps_all_the_same() {
    let timer: Timer = engine(2).build().unwrap();
    let (first, second) = (two_threads(), two_threads());
    let tasks = first.block_on(async { drive(&timer).unwrap() });
    let refused = second.block_on(async {
        let refused = drive(&timer).unwrap_err();
        timer.sleep(5 * MS).await.unwrap();
        refused
    });
    let inner = refused
        .into_inner()
        .unwrap()
        .downcast::<TurnError>()
        .unwrap();
    assert_eq!(*inner, TurnError::Driven { shard: 0 });
    timer.stop().unwrap();
    for task in tasks {
        assert_eq!(first.block_on(task).unwrap(), TurnError::Stopped);
    }
}

#[test]
fn driving_needs_a_runtime() {
    let timer: Timer = engine(1).build().unwrap();
    assert!(drive(&timer).is_err());
    // And has left the shard where it was.
    drop(timer.drive_shard(0).unwrap());
}

#[test]
fn smol_drives_the_shared_engine() {
    smol::block_on(async {
        let mut tasks = tickwheel_util::smol_rt::drive_shared().unwrap();
        assert_eq!(tasks.len(), 1, "nobody has asked for the engine before");
        let task = smol::spawn(tasks.remove(0));
        for delay in [0, 1, 7, 30] {
            let start = Instant::now();
            tickwheel::sleep(delay * MS).await;
            assert!(start.elapsed() >= delay * MS);
        }
        let sleeping = tickwheel::sleep(20 * MS);
        // The worker, which there has not been so far, takes over.
        assert!(task.cancel().await.is_none());
        sleeping.await;
    });
}

//! Engines whose shards the tasks of a runtime turn.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use tickwheel::{Builder, Expired, Pinning, Timer, TurnError};

const MS: Duration = Duration::from_millis(1);

/// What has fired, and on which thread.
type Calls = Arc<Mutex<Vec<(u32, ThreadId)>>>;

/// An engine whose handler writes down where it runs.
fn noting(shards: usize) -> (Timer<u32>, Calls) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let note = move |expired: Expired<u32>| {
        noted.lock().unwrap().push((expired.payload, std::thread::current().id()));
    };
    let builder = Builder::new().shards(shards).pinning(Pinning::Off);
    (builder.build_with(note).unwrap(), calls)
}

fn wait_for<T>(calls: &Mutex<Vec<T>>, count: usize) {
    let start = Instant::now();
    while calls.lock().unwrap().len() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "a timer is missing");
        std::thread::sleep(MS);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn timers_fire_on_the_runtime_until_it_shuts_down() {
    let (timer, calls) = noting(2);
    let threads = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::clone(&threads);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || started.lock().unwrap().push(std::thread::current().id()))
        .build()
        .unwrap();
    let is_of_runtime = |thread| threads.lock().unwrap().contains(&thread);
    let tasks = runtime.block_on(async { tickwheel_util::tokio::drive(&timer).unwrap() });
    assert_eq!(tasks.len(), 2);
    for id in 0..4 {
        // From threads outside of it, each with a timer that is earlier than what was there.
        let timer = timer.clone();
        std::thread::spawn(move || timer.schedule_key(20 * MS / (id + 1), id).unwrap());
    }
    wait_for(&calls, 4);
    assert!(calls.lock().unwrap().iter().all(|call| is_of_runtime(call.1)));

    timer.schedule_key(50 * MS, 4).unwrap();
    drop(runtime);
    wait_for(&calls, 5);
    let last = calls.lock().unwrap()[4].1;
    assert!(!is_of_runtime(last), "a worker has taken over");
    assert!(tasks.into_iter().all(|task| task.is_finished()));
}

#[test]
fn sleeps_of_a_driven_engine_are_never_early() {
    let timer: Timer = Builder::new().shards(1).pinning(Pinning::Off).build().unwrap();
    for current_thread in [false, true] {
        let runtime = match current_thread {
            false => runtime(),
            true => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        };
        runtime.block_on(async {
            let driving = tickwheel_util::tokio::drive(&timer).unwrap();
            let tasks: Vec<_> = (0..2000)
                .map(|n| {
                    let timer = timer.clone();
                    tokio::spawn(async move {
                        for round in 0..5 {
                            let delay = Duration::from_micros((n * 37 + round * 411) % 20_000);
                            let start = Instant::now();
                            timer.sleep(delay).await.unwrap();
                            assert!(start.elapsed() >= delay);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            driving.iter().for_each(tokio::task::JoinHandle::abort);
            for task in driving {
                assert!(task.await.unwrap_err().is_cancelled());
            }
        });
    }
    assert!(timer.stats().fired() > 10_000, "most have waited for a timer");
}

#[test]
fn a_second_runtime_is_refused_and_sleeps_all_the_same() {
    let timer: Timer = Builder::new().shards(2).pinning(Pinning::Off).build().unwrap();
    let (first, second) = (runtime(), runtime());
    let tasks = first.block_on(async { tickwheel_util::tokio::drive(&timer).unwrap() });
    let refused = second.block_on(async {
        let refused = tickwheel_util::tokio::drive(&timer).unwrap_err();
        timer.sleep(5 * MS).await.unwrap();
        refused
    });
    let inner = refused.into_inner().unwrap().downcast::<TurnError>().unwrap();
    assert_eq!(*inner, TurnError::Driven { shard: 0 });
    timer.stop().unwrap();
    for task in tasks {
        assert_eq!(first.block_on(task).unwrap(), TurnError::Stopped);
    }
}

#[test]
fn driving_needs_a_runtime() {
    let timer: Timer = Builder::new().shards(1).build().unwrap();
    assert!(tickwheel_util::tokio::drive(&timer).is_err());
    // And has left the shard where it was.
    drop(timer.drive_shard(0).unwrap());
}

#[test]
fn smol_drives_the_shared_engine() {
    smol::block_on(async {
        let mut tasks = tickwheel_util::smol::drive_shared().unwrap();
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

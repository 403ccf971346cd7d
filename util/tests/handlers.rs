//! Handlers of engines that a runtime drives may do what its tasks may.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tickwheel::{Builder, Expired, Pinning, Timer};
use tickwheel_util::tokio_rt::drive;
use tokio::runtime::{Builder as Runtime, Handle, Runtime as Tokio};
use tokio::task::block_in_place;

const MS: Duration = Duration::from_millis(1);
/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(60);

fn engine() -> Builder {
    Builder::new().shards(1).pinning(Pinning::Off)
}

fn threads(threads: usize) -> Tokio {
    let mut builder = Runtime::new_multi_thread();
    builder.worker_threads(threads).enable_all();
    builder.build().unwrap()
}

/// Calls `handler` in a timer of each kind that comes due while the runtime waits, and returns what the calls tell.
fn calls(runtime: &Tokio, handler: fn() -> u32) -> Vec<u32> {
    let (tell, told) = mpsc::channel();
    // A closure, one of a periodic timer, and a payload for a handler.
    let closures: Timer = engine().build().unwrap();
    let note = tell.clone();
    let with_handler = engine().build_with(move |_: Expired<()>| note.send(handler()).unwrap());
    let with_handler = with_handler.unwrap();
    let tasks = runtime.block_on(async {
        let mut tasks = drive(&closures).unwrap();
        tasks.extend(drive(&with_handler).unwrap());
        tasks
    });
    let once = tell.clone();
    let once = closures.run_after(5 * MS, move || once.send(handler()).unwrap());
    let every = closures.repeat(7 * MS, 7 * MS, move || _ = tell.send(handler()));
    with_handler.schedule(5 * MS, ()).unwrap();
    let calls = (0..5).map(|_| told.recv_timeout(LONG).expect("a call is missing"));
    let calls = calls.collect();
    drop((once, every));
    closures.stop().unwrap();
    with_handler.stop().unwrap();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    calls
}

#[test]
fn a_handler_may_block_in_place() {
    for workers in [1, 2] {
        let told = calls(&threads(workers), || {
            block_in_place(|| {
                thread::sleep(2 * MS);
                1
            })
        });
        assert_eq!(told, [1; 5]);
    }
}

#[test]
fn a_handler_may_wait_for_a_task_in_place() {
    let told = calls(&threads(1), || {
        block_in_place(|| {
            Handle::current().block_on(async {
                tokio::time::sleep(MS).await;
                let task = tokio::spawn(async {
                    tickwheel_util::time::sleep(MS).await;
                    2
                });
                task.await.unwrap()
            })
        })
    });
    assert_eq!(told, [2; 5]);
}

#[test]
fn a_handler_may_build_a_runtime_in_place_and_panic() {
    let told = calls(&threads(2), || {
        block_in_place(|| {
            let inner = Runtime::new_current_thread().enable_all().build().unwrap();
            inner.block_on(async {
                tickwheel_util::time::sleep(MS).await;
            });
        });
        let panicked = std::panic::catch_unwind(|| block_in_place(|| panic!("a handler")));
        if panicked.is_err() { 3 } else { 0 }
    });
    assert_eq!(told, [3; 5]);
}

#[test]
fn a_handler_that_panics_in_place_ends_nothing() {
    let runtime = threads(2);
    let timer: Timer = engine().build().unwrap();
    let tasks = runtime.block_on(async { drive(&timer).unwrap() });
    let (tell, told) = mpsc::channel();
    timer
        .run_after(MS, || block_in_place(|| panic!("a handler")))
        .unwrap();
    timer
        .run_after(3 * MS, move || tell.send(()).unwrap())
        .unwrap();
    told.recv_timeout(LONG).unwrap();
    assert!(!tasks[0].is_finished());
    timer.stop().unwrap();
}

/// As the program does that ended the process: the shared engine, by its free function.
#[test]
fn a_closure_of_the_shared_engine_may_block_in_place() {
    let runtime = threads(2);
    let _tasks = runtime.block_on(async { tickwheel_util::tokio_rt::drive_shared().unwrap() });
    let (tell, told) = mpsc::channel();
    let timer = tickwheel::global().unwrap();
    for n in 0..20 {
        let tell = tell.clone();
        let block = move || block_in_place(|| tell.send(n).unwrap());
        timer.run_after(n * MS, block).unwrap();
    }
    let calls = (0..20).map(|_| told.recv_timeout(LONG).expect("a call is missing"));
    assert_eq!(calls.collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}

/// The reactor's lock is not held where they run.
#[test]
fn a_handler_on_smol_may_wait_for_the_reactor() {
    let (tell, told) = mpsc::channel();
    // What might never end lies on a thread of its own.
    thread::spawn(move || {
        let timer: Timer = engine().build().unwrap();
        smol::block_on(async {
            let mut tasks = tickwheel_util::smol_rt::drive(&timer).unwrap();
            let task = smol::spawn(tasks.remove(0));
            for _ in 0..5 {
                let (done, finished) = smol::channel::bounded(1);
                let wait = move || {
                    smol::block_on(smol::Timer::after(MS));
                    done.try_send(()).unwrap();
                };
                timer.run_after(5 * MS, wait).unwrap();
                finished.recv().await.unwrap();
            }
            drop(task);
        });
        tell.send(()).unwrap();
    });
    told.recv_timeout(LONG).expect("it waits for ever");
}

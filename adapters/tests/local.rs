//! The sleeps of one thread inside of real runtimes, with futures that cannot be sent.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::Settings;
use tickwheel_util::LocalSleeps;

const MS: Duration = Duration::from_millis(1);

fn sleeps() -> LocalSleeps {
    LocalSleeps::new(Settings::new()).unwrap()
}

/// Sleeps a while, says so, and sleeps again: each never early.
async fn work(sleeps: LocalSleeps, number: u32, done: Rc<Cell<u32>>) {
    for round in 0..5 {
        let (start, delay) = (Instant::now(), MS * ((number + round) % 7));
        sleeps.sleep(delay).await.unwrap();
        assert!(start.elapsed() >= delay, "early");
    }
    // The first one gets ready, the other one's timer goes.
    let (mut soon, mut late) = (sleeps.sleep(MS), sleeps.sleep(3600 * 1000 * MS));
    std::future::poll_fn(|cx| match (soon.poll_sleep(cx), late.poll_sleep(cx)) {
        (Poll::Pending, Poll::Pending) => Poll::Pending,
        (Poll::Ready(Ok(())), Poll::Pending) => Poll::Ready(()),
        ended => panic!("{ended:?}"),
    })
    .await;
    done.set(done.get() + 1);
}

#[test]
fn a_local_set_of_tokio_is_driven_by_one_of_its_tasks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let (sleeps, done) = (sleeps(), Rc::new(Cell::new(0)));
    local.spawn_local({
        let sleeps = sleeps.clone();
        async move { sleeps.drive(tokio::time::sleep).await }
    });
    local.block_on(&runtime, async {
        let work = (0..200).map(|number| work(sleeps.clone(), number, Rc::clone(&done)));
        let tasks: Vec<_> = work.map(tokio::task::spawn_local).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!((done.get(), sleeps.pending()), (200, 0));
}

/// A runtime per thread, each with the sleeps of its own.
#[cfg(unix)]
mod thread_per_core {
    use super::{Cell, Duration, Instant, LocalSleeps, MS, Poll, Rc, sleeps, work};
    use monoio::{LegacyDriver, RuntimeBuilder};

    const HOUR: Duration = Duration::from_secs(3600);

    /// Runs `body` in a runtime of monoio's, one of whose tasks drives the sleeps and counts its own sleeps in the
    /// cell; fails if it takes too long.
    fn run<F: Future>(body: impl FnOnce(LocalSleeps, Rc<Cell<u32>>) -> F) -> F::Output {
        let builder = RuntimeBuilder::<LegacyDriver>::new().enable_timer();
        let mut runtime = builder.build().unwrap();
        let (sleeps, naps) = (sleeps(), Rc::new(Cell::new(0)));
        runtime.block_on(async {
            monoio::spawn({
                let (sleeps, naps) = (sleeps.clone(), Rc::clone(&naps));
                let nap = move |time| {
                    naps.set(naps.get() + 1);
                    monoio::time::sleep(time)
                };
                async move { sleeps.drive(nap).await }
            });
            let body = body(sleeps, naps);
            monoio::time::timeout(Duration::from_secs(60), body).await.expect("it ends")
        })
    }

    #[test]
    fn each_runtime_wakes_its_own_tasks() {
        let threads = [0, 1].map(|_| {
            std::thread::spawn(|| {
                run(async |sleeps, _| {
                    let done = Rc::new(Cell::new(0));
                    let work =
                        (0..200).map(|number| work(sleeps.clone(), number, Rc::clone(&done)));
                    let tasks: Vec<_> = work.map(monoio::spawn).collect();
                    for task in tasks {
                        task.await;
                    }
                    (done.get(), sleeps.pending())
                })
            })
        });
        for thread in threads {
            assert_eq!(thread.join().unwrap(), (200, 0));
        }
    }

    #[test]
    fn the_loop_sleeps_between_deadlines_and_wakes_for_an_earlier_one() {
        run(async |sleeps, naps| {
            let far = monoio::spawn({
                let sleep = sleeps.sleep(HOUR);
                async move { sleep.await.unwrap() }
            });
            // The driver sleeps for an hour by then, and for nothing else.
            monoio::time::sleep(20 * MS).await;
            assert_eq!((naps.get(), sleeps.pending()), (1, 1));
            for _ in 0..3 {
                let (start, before) = (Instant::now(), naps.get());
                sleeps.sleep(20 * MS).await.unwrap();
                assert!(start.elapsed() >= 20 * MS, "early");
                monoio::time::sleep(5 * MS).await;
                // One until the deadline, one on to the far one, and as many again where a sleep of the runtime's
                // ends within the tick before.
                let naps = naps.get() - before;
                assert!((1..=4).contains(&naps), "{naps} naps for one sleep");
            }
            drop(far);
        });
    }

    #[test]
    fn another_thread_wakes_a_task_of_the_loop() {
        run(async |sleeps, _| {
            let (start, mut is_first) = (Instant::now(), true);
            std::future::poll_fn(|cx| {
                if !std::mem::take(&mut is_first) {
                    return Poll::Ready(());
                }
                let (remote, waker) = (sleeps.remote(), cx.waker().clone());
                // By then the loop sleeps without an end.
                std::thread::spawn(move || {
                    std::thread::sleep(20 * MS);
                    remote.schedule(20 * MS, waker.into()).unwrap();
                });
                Poll::Pending
            })
            .await;
            assert!(start.elapsed() >= 40 * MS, "early");
        });
    }
}

#[test]
fn a_local_executor_and_an_epoll_loop_of_ones_own_need_no_other_timer() {
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(8);
    let timer = Settings::new().build_with_mio(poll.registry(), mio::Token(0)).unwrap();
    let (sleeps, done) = (LocalSleeps::from(timer), Rc::new(Cell::new(0)));
    let tasks = smol::LocalExecutor::new();
    for number in 0..200 {
        tasks.spawn(work(sleeps.clone(), number, Rc::clone(&done))).detach();
    }
    // Another thread wakes a task of this one.
    let woken = Rc::new(Cell::new(false));
    let remote = sleeps.remote();
    tasks
        .spawn({
            let woken = Rc::clone(&woken);
            async move {
                let mut is_first = true;
                std::future::poll_fn(|cx| {
                    if !std::mem::take(&mut is_first) {
                        return Poll::Ready(());
                    }
                    let (remote, waker) = (remote.clone(), cx.waker().clone());
                    std::thread::spawn(move || remote.schedule(40 * MS, waker.into()).unwrap());
                    Poll::Pending
                })
                .await;
                woken.set(true);
            }
        })
        .detach();
    loop {
        while tasks.try_tick() {}
        if done.get() == 200 && woken.get() {
            break;
        }
        match poll.poll(&mut events, sleeps.poll_timeout()) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            polled => polled.unwrap(),
        }
        sleeps.fire();
    }
    assert_eq!(sleeps.pending(), 0);
}

//! The sleeps of one thread inside of real runtimes, with futures that cannot be sent.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{EventLoopBuilder, EventLoopTimer, LocalSleeps};

const MS: Duration = Duration::from_millis(1);

fn sleeps() -> LocalSleeps {
    LocalSleeps::new(EventLoopBuilder::new()).unwrap()
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

#[test]
fn a_local_executor_and_an_epoll_loop_of_ones_own_need_no_other_timer() {
    let mut poll = mio::Poll::new().unwrap();
    let mut events = mio::Events::with_capacity(8);
    let timer = EventLoopTimer::builder().build_with_mio(poll.registry(), mio::Token(0)).unwrap();
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
                    std::thread::spawn(move || remote.schedule(40 * MS, waker).unwrap());
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

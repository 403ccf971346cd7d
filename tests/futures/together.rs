//! Wakers of one turn: called together, in order, with what is no waker in between.

use crate::rig::{Bell, Rig, poll};
use crate::support::setup::ms;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use tickwheel::{ManualClock, Sleep, SleepError};

/// Notes its number when it is woken; the last of a few panics.
struct Note {
    number: usize,
    list: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.list.lock().unwrap().push(self.number);
        assert!(self.number % 10 != 9, "a wake that panics");
    }
}

#[test]
fn wakers_and_closures_of_one_tick_are_called_in_order() {
    let rig = Rig::new();
    let list = Arc::new(Mutex::new(Vec::new()));
    let mut sleeps = Vec::new();
    for number in 0..200 {
        let list = Arc::clone(&list);
        if number % 70 == 50 {
            rig.timer
                .run_after(ms(5), move || list.lock().unwrap().push(number))
                .unwrap();
            continue;
        }
        let waker = Waker::from(Arc::new(Note { number, list }));
        let mut sleep = rig.timer.sleep(ms(5));
        assert!(
            sleep
                .poll_sleep(&mut Context::from_waker(&waker))
                .is_pending()
        );
        sleeps.push(sleep);
    }
    assert_eq!(rig.pass(ms(5)), 200);
    assert_eq!(*list.lock().unwrap(), (0..200).collect::<Vec<_>>());
    assert_eq!(
        (
            rig.timer.stats().panics,
            sleeps.iter().all(Sleep::is_elapsed)
        ),
        (20, true)
    );
}

/// Looks, when it is woken, how many of these have fired.
#[derive(Default)]
struct Look {
    sleeps: Mutex<Vec<Sleep<SleepError>>>,
    seen: AtomicUsize,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        let sleeps = self.sleeps.lock().unwrap();
        let fired = sleeps.iter().filter(|sleep| sleep.is_elapsed()).count();
        self.seen.store(fired, Ordering::SeqCst);
    }
}

#[test]
fn the_first_waker_is_called_when_all_of_a_few_have_fired() {
    let rig = Rig::new();
    let (look, bell) = (Arc::<Look>::default(), Bell::new());
    let mut first = rig.timer.sleep(ms(5));
    let waker = Waker::from(Arc::clone(&look));
    assert!(
        first
            .poll_sleep(&mut Context::from_waker(&waker))
            .is_pending()
    );
    for _ in 0..9 {
        let mut sleep = rig.timer.sleep(ms(5));
        assert!(poll(&mut sleep, &bell).is_pending());
        look.sleeps.lock().unwrap().push(sleep);
    }
    assert_eq!(rig.pass(ms(5)), 10);
    assert_eq!((look.seen.load(Ordering::SeqCst), bell.rings()), (9, 9));
}

/// Each wake takes 5 ms.
struct Slow(ManualClock);

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        self.0.advance(ms(5));
    }
}

#[test]
fn lateness_counts_wakers_beside_a_slow_handler_hook() {
    let rig = Rig::with(|builder| builder.on_slow_handler(ms(1000), |_| ()));
    let waker = Waker::from(Arc::new(Slow(rig.clock.clone())));
    let mut sleeps: Vec<_> = (0..20).map(|_| rig.timer.sleep(ms(10))).collect();
    for sleep in &mut sleeps {
        assert!(
            sleep
                .poll_sleep(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    assert_eq!(rig.pass(ms(10)), 20);
    let stats = rig.timer.stats();
    assert_eq!(
        (stats.lateness.max(), stats.shards[0].handler_time.max()),
        (ms(95), ms(5))
    );
}

//! A thread that uses the engine in every way there is.

use super::books::{Books, Engine, PERIODICS};
use super::{Delay, Op};
use crate::support::ledger::Payload;
use std::time::Duration;
use tickwheel::__internal::set_home;
use tickwheel::{TimerHandle, TimerState};

/// The handles that a producer has kept, with their timers' numbers.
pub(super) type Held = Vec<(u64, TimerHandle<Payload>)>;

/// One producer: the timer of its operation number `n` has the number `first + n`.
pub(super) struct Producer<'a> {
    pub(super) books: &'a Books,
    pub(super) engine: &'a Engine,
    pub(super) first: u64,
    held: Held,
    /// Whether the thread's home changes before each operation.
    spread: bool,
}

impl<'a> Producer<'a> {
    pub(super) fn new(books: &'a Books, engine: &'a Engine, first: u64, spread: bool) -> Self {
        Self {
            books,
            engine,
            first,
            held: Vec::new(),
            spread,
        }
    }

    pub(super) fn run(mut self, ops: &[Op]) -> Held {
        for (id, op) in (self.first..).zip(ops) {
            self.step(id, *op);
        }
        self.held
    }

    fn step(&mut self, id: u64, op: Op) {
        let Self { books, engine, .. } = *self;
        if self.spread {
            set_home(engine, id as usize % engine.shards());
        }
        let own = |back: u8| id - u64::from(back) % (id + 1 - self.first);
        match op {
            Op::Schedule(delay) => {
                let delay = delay.duration();
                books.begun(id, engine.schedule(delay, books.begin(id, delay)));
            }
            Op::ScheduleHandle(delay) => self.schedule(id, delay.duration(), false),
            Op::ScheduleDetached(delay) => self.schedule(id, delay.duration(), true),
            Op::Cancel(pick) => books.cancel(engine, u64::from(pick) % (2 * books.timers())),
            Op::CancelOwn(back) => books.cancel(engine, own(back)),
            Op::MoveOwn(back, delay) => books.move_timer(engine, own(back), delay.duration(), true),
            Op::MoveAny(pick, delay) => {
                let any = u64::from(pick) % (2 * books.timers());
                books.move_timer(engine, any, delay.duration(), false);
            }
            Op::CancelHandle(pick) => self.cancel_held(pick),
            Op::MoveHandle(pick, delay) => {
                if let Some((id, handle)) = self.pick_held(pick).map(|place| &self.held[place]) {
                    let delay = delay.duration();
                    books.moving(*id, delay, true, || handle.reschedule(delay).is_moved());
                }
            }
            Op::DropHandle(pick) => {
                let place = self.pick_held(pick);
                drop(place.map(|place| self.held.swap_remove(place)));
            }
            Op::BeginPeriodic {
                n,
                every,
                first,
                rhythm,
            } => {
                let every = Duration::from_micros(50 + u64::from(every % 2_000));
                let period = rhythm.period(every);
                self.begin_periodic(u64::from(n) % PERIODICS, period, first);
            }
            Op::EndPeriodic(n) => books.end_periodic(engine, u64::from(n) % PERIODICS),
            Op::Advance(us) => books.clock.advance(Duration::from_micros(us.into())),
            Op::Nap(us) => std::thread::sleep(Duration::from_micros(us.into())),
            Op::Yield => std::thread::yield_now(),
        }
    }

    fn schedule(&mut self, id: u64, delay: Duration, detach: bool) {
        match self
            .engine
            .schedule_handle(delay, self.books.begin(id, delay))
        {
            Err(error) => self.books.begun(id, Err(error)),
            Ok(timeout) if detach => self.books.begun(id, Ok(timeout.detach())),
            Ok(timeout) => {
                self.books.begun(id, Ok(timeout.key()));
                self.held.push((id, timeout));
            }
        }
    }

    fn pick_held(&self, pick: u8) -> Option<usize> {
        usize::from(pick).checked_rem(self.held.len())
    }

    fn cancel_held(&self, pick: u8) {
        let Some((id, handle)) = self.pick_held(pick).map(|place| &self.held[place]) else {
            return;
        };
        let answer = handle.cancel();
        let state = handle.state();
        assert!(state != TimerState::Pending, "timer {id} has ended");
        assert!(
            !answer.is_won() || state == TimerState::Cancelled,
            "timer {id} is {state:?}"
        );
        self.books.cancelled(*id, answer);
    }

    fn begin_periodic(&self, n: u64, period: tickwheel::Period, first: Delay) {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock();
        let repeated = &self.books.repeated[n as usize];
        if repeated.key.get().is_some() {
            return;
        }
        let id = 2 * self.books.timers() + n;
        let payload = self.books.ledger.payload(id);
        match self
            .engine
            .schedule_periodic(first.duration(), period, payload)
        {
            Ok(key) => assert!(repeated.key.set(key).is_ok()),
            Err(error) => self.books.refused(id, error),
        }
    }
}

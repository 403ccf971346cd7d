//! Settings, time and periods: every setting is accepted or refused with a reason that holds; a deadline is never
//! early and less than a tick late, wherever on the scale it lies.

mod settings;

use crate::support::choices::{Span, Step};
use crate::support::ticks::{NEVER, Rhythm, Ticks, later, saturated};
use arbitrary::Arbitrary;
use settings::{MAX_TICK, Settings, judge};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tickwheel::{EventLoopTimer, Clock, ManualClock, Time, Timer, When};

/// What the fuzzer chooses.
#[derive(Arbitrary, Debug)]
pub struct Case {
    settings: Settings,
    uptime: Span,
    delays: Vec<Delay>,
    period: Span,
    rhythm: Rhythm,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Delay {
    After(Span),
    AfterAny(Duration),
    At(u64),
    AtEnd(u16),
}

/// Runs the case; panics where a rule is broken.
pub fn check(case: &Case) {
    let Case {
        settings,
        uptime,
        delays,
        period,
        rhythm,
    } = case;
    let ticks = Ticks::new(settings.tick().clamp(Duration::from_micros(1), MAX_TICK));
    let start = uptime.time(ticks);
    periods(*rhythm, period.duration(ticks), start, delays, ticks);
    let clock = ManualClock::starting_at(start);
    let fired = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&fired);
    let built = settings.builder(&clock).build_with(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let engine = judge(settings, built, &settings.engine_faults());
    let shared = settings.shared().clock(clock.clone());
    let local = judge(settings, shared.clone().build_local(), &settings.faults());
    let event_loop = judge(settings, EventLoopTimer::with_waker(shared, || ()), &settings.faults());
    for delay in delays.iter().take(8) {
        if let Some(timer) = &engine {
            schedule(timer, &clock, &fired, *delay);
        }
    }
    let end = delays.first().copied();
    if let (Some(mut local), Some(delay)) = (local, end) {
        let (now, (deadline, after)) = (clock.now(), point(clock.now(), delay));
        let (now, when) = match after {
            Some(delay) => (now, When::from(delay)),
            None => (Time::ZERO, deadline.into()),
        };
        let key = local.schedule(now, when, ()).expect("there is a place");
        rounded(
            local.deadline(key).expect("it is pending"),
            now,
            deadline,
            ticks,
        );
    }
    if let (Some(mut timer), Some(delay)) = (event_loop, end) {
        let (deadline, _) = point(clock.now(), delay);
        let key = timer
            .schedule(Time::ZERO, deadline, ())
            .expect("there is a place");
        let unfired = timer.close();
        assert_eq!((unfired.len(), unfired[0].key), (1, key));
        rounded(unfired[0].deadline, Time::ZERO, deadline, ticks);
    }
}

/// The point of time that is asked for, and the delay if it is asked for as one.
fn point(now: Time, delay: Delay) -> (Time, Option<Duration>) {
    let ticks = Ticks(1_000_000);
    match delay {
        Delay::After(span) => (later(now, span.duration(ticks)), Some(span.duration(ticks))),
        Delay::AfterAny(delay) => (later(now, delay), Some(delay)),
        Delay::At(nanos) => (Time::from_nanos(nanos), None),
        Delay::AtEnd(back) => (Time::from_nanos(u64::MAX - u64::from(back)), None),
    }
}

/// `told` is what `deadline` has to be rounded to; `now` is where its delay was counted from, if it was one.
fn rounded(told: Time, now: Time, deadline: Time, ticks: Ticks) {
    if deadline <= now {
        assert!(
            told <= now && (now - told).as_nanos() < u128::from(ticks.0),
            "due at once"
        );
        return;
    }
    assert!(told >= deadline, "{told:?} is before {deadline:?}");
    let late = u128::from(told.as_nanos() - deadline.as_nanos());
    assert!(
        late < u128::from(ticks.0),
        "{told:?} is a tick after {deadline:?}"
    );
    assert!(
        told == Time::MAX || told.as_nanos() % ticks.0 == 0,
        "{told:?} is not a tick"
    );
}

/// Schedules one timer, looks at its deadline, and goes there: it fires then and not a nanosecond before.
fn schedule(timer: &Timer<()>, clock: &ManualClock, fired: &AtomicUsize, delay: Delay) {
    let ticks = Ticks::new(timer.tick());
    let (now, (deadline, after)) = (clock.now(), point(clock.now(), delay));
    let when = after.map_or(deadline.into(), When::from);
    let timeout = timer.schedule_handle(when, ()).expect("there is a place");
    let present = if after.is_some() {
        now
    } else {
        ticks.asked(now)
    };
    if after.is_some() || deadline > present {
        rounded(timeout.deadline(), present, deadline, ticks);
    }
    let due = after.map_or(ticks.point(deadline, present), |delay| {
        ticks.deadline(now, delay)
    });
    assert_eq!(timeout.deadline(), ticks.start(due));
    let before = fired.load(Ordering::SeqCst);
    if timeout.deadline() > now {
        clock.set(Time::from_nanos(timeout.deadline().as_nanos() - 1));
        assert_eq!(timer.turn(), Ok(0), "early");
    }
    clock.set(timeout.deadline());
    // A tick beyond the scale begins never, although its time is told as the end of the scale.
    let ever = due != NEVER && u128::from(due) * u128::from(ticks.0) <= u128::from(u64::MAX);
    assert_eq!(
        timer.turn(),
        Ok(usize::from(ever)),
        "due at {:?}",
        timeout.deadline()
    );
    assert_eq!(fired.load(Ordering::SeqCst) - before, usize::from(ever));
    assert_eq!(
        (timeout.is_fired(), timeout.cancel().is_won()),
        (ever, !ever)
    );
}

/// The arithmetic of periods and times, against the plain one.
fn periods(rhythm: Rhythm, length: Duration, start: Time, delays: &[Delay], ticks: Ticks) {
    let period = rhythm.period(length);
    let nanos = saturated(length.as_nanos()).max(1);
    assert_eq!(period.length(), Duration::from_nanos(nanos));
    assert_eq!(period.is_fixed_delay(), rhythm == Rhythm::FixedDelay);
    let mut nominal = start;
    for delay in delays {
        let (now, _) = point(nominal, *delay);
        // A timer fires at its deadline or later.
        let now = now.max(nominal);
        let next = period.next(nominal, now);
        assert_eq!(
            next,
            rhythm.next(length, nominal, now),
            "after {nominal:?} at {now:?}"
        );
        assert_eq!(now + length, later(now, length));
        assert_eq!(nominal - now, Duration::ZERO);
        let stepped = Step::Ticks(1).from(now, None, ticks);
        let clock = ManualClock::starting_at(now);
        let tick = Duration::from_nanos(ticks.0);
        assert_eq!(
            (clock.advance(tick), Clock::now(&clock)),
            (stepped, stepped)
        );
        nominal = next;
    }
}

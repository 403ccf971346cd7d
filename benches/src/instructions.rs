//! `instructions`: how many instructions the hot paths take, counted by callgrind, held against what is on record.
//!
//! ```sh
//! cargo run --release -p tickwheel-benches --bin instructions            # count, and compare with the record
//! cargo run --release -p tickwheel-benches --bin instructions -- --write # make this the record
//! ```
//!
//! Counts repeat to a fraction of a percent on any machine, however busy, which times do not: so a regression of
//! five percent can fail a build. Each operation is counted as the difference of two runs, of which one does twice
//! as many, so that neither start nor set-up count. The record is `benches/instructions.json`; it names the
//! compiler, because another one gives other counts.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::future::{pending, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tickwheel::{
    BuildError, Builder, Drive, EventLoopTimer, Expired, ManualClock, Settings, Time, Timer,
    TimerTask, When,
};
use tickwheel_benches::local::{
    Churn, EventLoopRemotePeer, FloorPeer, LONG, LocalPeer, LocalTimerPeer, life, rearm,
};
use tickwheel_benches::process::{Failure, arguments, callgrind, find};
use tickwheel_util::time;
use tokio::runtime::Runtime;

/// Operations of the shorter run: as many as an inbox's owner reads in two drains.
const COUNT: usize = 128 * 1024;
/// Timers that are pending meanwhile.
const RESIDENTS: usize = 1_000;
/// The percentage above the record that is still allowed.
const ALLOWED: f64 = 5.0;
const DELAY: Duration = Duration::from_secs(20);
const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// Does an operation so many times.
type Operation = fn(usize);

const OPERATIONS: [(&str, Operation); 23] = [
    // Cancel a random timer of a thousand and schedule another.
    ("local-pair", churn::<LocalTimerPeer>),
    // The same with a table of payloads and no timer: the benchmark's own share, and the least there is.
    ("floor-pair", churn::<FloorPeer>),
    // Push a deadline out.
    ("local-rearm", rearms::<LocalTimerPeer>),
    // Schedule and fire, in polls of which one in five finds nothing due.
    ("local-life", lives_polled::<LocalTimerPeer>),
    // The same with timers of the loop's own, while a remote exists.
    ("loop-pair", churn::<EventLoopRemotePeer>),
    ("loop-rearm", rearms::<EventLoopRemotePeer>),
    ("loop-life", lives_polled::<EventLoopRemotePeer>),
    ("remote-pair", remote_pairs),
    // A round of a loop in which nothing is due and nothing was sent.
    ("local-idle", |times| {
        rounds(
            times,
            Settings::new().build_local(),
            |timer, now| _ = timer.schedule(now, DELAY, 17),
            |timer, now| timer.poll(now, none_is_due).fired,
        )
    }),
    ("loop-idle", |times| {
        rounds(
            times,
            a_loop(),
            |timer, now| _ = timer.schedule(now, DELAY, 17),
            |timer, now| timer.poll(now, none_is_due).fired,
        )
    }),
    // The same by the call without a handler.
    ("local-idle-expired", |times| {
        rounds(
            times,
            Settings::new().build_local(),
            |timer, now| _ = timer.schedule(now, DELAY, 17),
            |timer, now| timer.expired(now).count(),
        )
    }),
    ("loop-idle-expired", |times| {
        rounds(
            times,
            a_loop(),
            |timer, now| _ = timer.schedule(now, DELAY, 17),
            |timer, now| timer.expired(now).count(),
        )
    }),
    // The question how long the loop may sleep, and the end of that sleep.
    ("loop-timeout", timeouts),
    // Keep a thousand timers in flight in an engine that is turned by hand, by keys and delays.
    ("engine-pair", |times| keys(times, by_hand(), || DELAY)),
    ("engine-time", |times| {
        keys(times, by_hand(), || Time::ZERO + DELAY)
    }),
    // On the machine's clock.
    ("engine-instant", |times| {
        let deadline = Instant::now() + DELAY;
        keys(times, typed(builder()), || deadline);
    }),
    ("engine-slack", |times| {
        let when = || When::from(DELAY).with_slack(Duration::from_secs(1));
        keys(times, by_hand(), when);
    }),
    ("engine-handles", |times| {
        let timer = by_hand();
        pairs(
            times,
            || timer.schedule_handle(DELAY, 17),
            |it| it.cancel(),
            || _ = timer.turn(),
        );
    }),
    ("engine-closures", |times| {
        let timer = of_closures();
        let schedule = || timer.schedule(DELAY, TimerTask::new(closure()));
        pairs(
            times,
            schedule,
            |key| timer.cancel(key),
            || _ = timer.turn(),
        );
    }),
    // Owned handles of closures: the calls of the README's first page.
    ("engine-first-page", |times| {
        let timer = of_closures();
        pairs(
            times,
            || timer.run_after_handle(DELAY, closure()),
            |it| it.cancel(),
            || _ = timer.turn(),
        );
    }),
    // Schedule and fire, a thousand per tick.
    ("engine-life", lives),
    // A timeout in a runtime of tokio, by the runtime's engine: armed and dropped.
    ("time-timeout", |times| {
        in_runtime(times, async || {
            let mut limited = pin!(time::timeout(DELAY, pending::<()>()));
            let polled = poll_fn(|cx| Poll::Ready(limited.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        });
    }),
    // A sleep there, from its making to the poll after its wake, of a thousand tasks.
    ("time-life", |times| {
        let lives = async |task: usize, lives: usize| {
            for life in 0..lives {
                time::sleep(Duration::from_millis(5 + (7 * task + life) as u64 % 20)).await;
            }
        };
        runtime().block_on(async {
            let tasks: Vec<_> = (0..RESIDENTS)
                .map(|task| tokio::spawn(lives(task, times / RESIDENTS)))
                .collect();
            for task in tasks {
                task.await.expect("no task panics");
            }
        });
    }),
];

/// The record.
#[derive(Serialize, Deserialize)]
struct Record {
    compiler: String,
    /// Instructions per operation.
    instructions: BTreeMap<String, f64>,
}

fn main() -> Result<(), Failure> {
    let arguments = arguments();
    if let ["--child", name, times] = arguments[..] {
        find(&OPERATIONS, name)?(times.parse()?);
        return Ok(());
    }
    let record = std::fs::read_to_string(RECORD)?;
    let record: Record = serde_json::from_str(&record)?;
    let mut instructions = BTreeMap::new();
    let mut worse = Vec::new();
    println!(
        "{:12} {:>8} {:>8} {:>8}",
        "operation", "now", "record", "change"
    );
    for (name, _) in OPERATIONS {
        let count = count(name)?;
        let recorded = record.instructions.get(name).copied().unwrap_or(f64::NAN);
        let change = (count / recorded - 1.0) * 100.0;
        println!("{name:12} {count:8.1} {recorded:8.1} {change:7.1}%");
        if change > ALLOWED {
            worse.push(name);
        }
        instructions.insert(name.to_owned(), (count * 10.0).round() / 10.0);
    }
    let compiler = env!("TICKWHEEL_RUSTC").to_owned();
    if arguments == ["--write"] {
        let record = serde_json::to_string_pretty(&Record {
            compiler,
            instructions,
        })?;
        std::fs::write(RECORD, record + "\n")?;
    } else if record.compiler != compiler {
        println!(
            "{} made the record, this is {compiler}: shown, not judged",
            record.compiler
        );
    } else if !worse.is_empty() {
        let names = worse.join(", ");
        return Err(format!(
            "more than {ALLOWED} % above the record: {names}; if that is as it must be, --write a new one"
        )
        .into());
    }
    Ok(())
}

/// Returns the instructions per operation.
fn count(name: &str) -> Result<f64, Failure> {
    let collect = |times: usize| -> Result<f64, Failure> {
        let counts = callgrind(&[], &["--child", name, &times.to_string()])?;
        let sum = counts
            .lines()
            .find_map(|line| line.strip_prefix("totals: "));
        Ok(sum.ok_or("callgrind does not say the sum")?.parse()?)
    };
    Ok((collect(2 * COUNT)? - collect(COUNT)?) / COUNT as f64)
}

fn churn<P: LocalPeer>(times: usize) {
    let mut churn = Churn::<P>::new(RESIDENTS, LONG, None);
    black_box(churn.run(times));
    churn.end();
}

/// Schedules and fires by the hundred thousand, so that twice as many are as dense in time.
fn lives_polled<P: LocalPeer>(times: usize) {
    for _ in 0..times / COUNT {
        black_box(life::<P>(COUNT));
    }
}

fn rearms<P: LocalPeer>(times: usize) {
    let mut churn = Churn::<P>::new(RESIDENTS, LONG, None);
    black_box(rearm(&mut churn, times));
    churn.end();
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime")
}

/// Does an operation in a task of tokio, which yields to the runtime once per thousand.
fn in_runtime(times: usize, operation: impl AsyncFn()) {
    runtime().block_on(async {
        for number in 0..times {
            operation().await;
            if number % RESIDENTS == 0 {
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Keeps a thousand timers in flight; `now_and_then` is called once per thousand pairs.
fn pairs<N, E: Debug, C>(
    times: usize,
    schedule: impl Fn() -> Result<N, E>,
    cancel: impl Fn(N) -> C,
    mut now_and_then: impl FnMut(),
) {
    let schedule = || schedule().expect("there is no limit");
    let mut keys: VecDeque<N> = (0..RESIDENTS).map(|_| schedule()).collect();
    for pair in 0..times {
        if let Some(oldest) = keys.pop_front() {
            _ = black_box(cancel(oldest));
        }
        keys.push_back(schedule());
        if pair % RESIDENTS == 0 {
            now_and_then();
        }
    }
}

fn a_loop() -> Result<EventLoopTimer<u64>, BuildError> {
    EventLoopTimer::with_waker(Settings::new().clock(ManualClock::new()), || ())
}

/// Polls so often while nothing is due; `schedule` makes one of a thousand residents, `poll` fires what is due and
/// returns how many.
fn rounds<L>(
    times: usize,
    timer: Result<L, BuildError>,
    schedule: impl Fn(&mut L, Time),
    poll: impl Fn(&mut L, Time) -> usize,
) {
    let mut timer = timer.expect("the defaults are valid");
    let mut now = Time::ZERO;
    (0..RESIDENTS).for_each(|_| schedule(&mut timer, now));
    for _ in 0..times {
        now += Duration::from_nanos(100);
        black_box(poll(&mut timer, now));
    }
}

/// The handler of such a poll.
fn none_is_due<T>(_: Expired<T>) {
    unreachable!("nothing is due")
}

fn timeouts(times: usize) {
    let mut timer = a_loop().expect("the defaults are valid");
    for _ in 0..RESIDENTS {
        _ = timer.schedule(Time::ZERO, DELAY, 17);
    }
    let mut now = Time::ZERO;
    for _ in 0..times {
        now += Duration::from_nanos(100);
        black_box(timer.poll_timeout(now));
        black_box(timer.poll(now, |_| unreachable!("nothing is due")));
    }
}

/// A remote of an event loop, which polls once per thousand.
fn remote_pairs(times: usize) {
    let mut timer = a_loop().expect("the defaults are valid");
    let remote = timer.remote();
    let poll = || _ = timer.poll(Time::ZERO, |_| ());
    pairs(
        times,
        || remote.schedule(DELAY, 17),
        |key| remote.cancel(key),
        poll,
    );
}

/// An engine that is turned by hand, on the machine's clock.
fn builder() -> Builder {
    Builder::new().shards(1).drive(Drive::Manual)
}

fn typed(builder: Builder) -> Timer<u64> {
    let handler = |expired: Expired<u64>| _ = black_box(expired.payload);
    builder.build_with(handler).expect("the settings are valid")
}

fn by_hand() -> Timer<u64> {
    typed(builder().clock(ManualClock::new()))
}

fn of_closures() -> Timer {
    builder()
        .clock(ManualClock::new())
        .build()
        .expect("the settings are valid")
}

fn keys<W: Into<When>>(times: usize, timer: Timer<u64>, when: impl Fn() -> W) {
    let schedule = || timer.schedule(when(), 17);
    pairs(
        times,
        schedule,
        |key| timer.cancel(key),
        || _ = timer.turn(),
    );
}

/// Captures three words.
fn closure() -> impl FnOnce() + Send {
    let captured = black_box([17_usize; 3]);
    move || _ = black_box(captured)
}

fn lives(times: usize) {
    let clock = ManualClock::new();
    let timer = typed(builder().clock(clock.clone()));
    for number in 0..times as u64 {
        let delay = Duration::from_millis(1 + number % 100);
        timer.schedule(delay, number).expect("there is no limit");
        if number % 1_000 == 999 {
            clock.advance(Duration::from_millis(1));
            timer.turn().expect("it is turned by hand");
        }
    }
    clock.advance(Duration::from_millis(100));
    timer.turn().expect("it is turned by hand");
    assert_eq!(timer.pending(), 0, "every timer has fired");
}

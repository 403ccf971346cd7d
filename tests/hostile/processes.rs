//! What needs a process of its own.

use crate::children::in_a_process_of_its_own;
use crate::one_shard;
use crate::support::setup::{ms, recording, spread, us, wait_until};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tickwheel::{BuildError, Builder, Drive, EventLoopTimer, Expired, Settings};

#[test]
fn an_engine_opens_no_descriptor() {
    if in_a_process_of_its_own(an_engine_opens_no_descriptor, &[]) {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    let (timer, fired) = recording(Builder::new().shards(8));
    (0..8).for_each(|id| _ = spread(&timer, us(100), id));
    wait_until("all have fired", || fired.len() == 8);
    assert_eq!(open(), before);
    timer.stop().unwrap();
}

#[test]
fn a_loop_without_a_descriptor_for_its_waker_says_so() {
    if in_a_process_of_its_own(a_loop_without_a_descriptor_for_its_waker_says_so, &[]) {
        return;
    }
    let poll = mio::Poll::new().unwrap();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: asks for a limit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let set = |limit| {
        // SAFETY: a limit of this process, whose one test this is.
        let answer = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(answer, 0);
    };
    set(libc::rlimit {
        rlim_cur: 0,
        ..limit
    });
    let refused = EventLoopTimer::<u64>::with_mio(Settings::new(), poll.registry(), mio::Token(0));
    set(limit);
    let Err(BuildError::Waker { source }) = refused else {
        panic!("there is a waker")
    };
    assert_eq!(source.raw_os_error(), Some(libc::EMFILE));
}

/// In a process of its own, because other engines would free it as well.
#[test]
fn an_engine_whose_last_handle_is_gone_is_freed_when_another_one_is_built() {
    if in_a_process_of_its_own(
        an_engine_whose_last_handle_is_gone_is_freed_when_another_one_is_built,
        &[],
    ) {
        return;
    }
    let probe = Arc::new(());
    let kept = Arc::clone(&probe);
    let builder = one_shard().drive(Drive::Manual);
    let timer = builder.on_worker_stop(move |_| _ = &kept);
    let timer = timer.build_with(|_: Expired<u64>| ()).unwrap();
    let handle = timer.schedule_handle(ms(1), 1).unwrap();
    drop(timer);
    drop(handle);
    assert_eq!(Arc::strong_count(&probe), 2, "a handle frees nothing");
    let (_other, _) = recording(one_shard().drive(Drive::Manual));
    assert_eq!(Arc::strong_count(&probe), 1);
}

/// Every clock that the standard library reads here runs between 11 % slow and 11 % fast, by turns.
#[test]
fn never_early_on_a_clock_that_is_slewed() {
    let there = std::env::var_os("LD_PRELOAD").map(PathBuf::from);
    let Some(shim) = there.or_else(shim::build) else {
        return eprintln!("skipped: no C compiler");
    };
    let preloaded = [("LD_PRELOAD", shim.as_os_str())];
    if in_a_process_of_its_own(never_early_on_a_clock_that_is_slewed, &preloaded) {
        return;
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let timer = one_shard()
        .tick(us(1))
        .build_with(move |expired: tickwheel::Expired<Instant>| {
            sender.send((expired.payload, Instant::now())).unwrap();
        })
        .unwrap();
    let (mut early, mut fired) = (Vec::new(), 0);
    let start = Instant::now();
    while start.elapsed() < ms(1500) {
        // Many a schedule between two readings of the clock, as on a busy server.
        for n in 0..200 {
            let delay = us(n % 7 * 40);
            timer.schedule(delay, Instant::now() + delay).unwrap();
        }
        for (due, at) in receiver.try_iter() {
            fired += 1;
            early.extend((at < due).then(|| due - at));
        }
    }
    timer.wait_idle();
    assert!(fired > 1000, "{fired} fired");
    assert!(
        early.is_empty(),
        "{} of {fired} were early: {:?}",
        early.len(),
        early.iter().max()
    );
    timer.stop().unwrap();
}

mod shim {
    use std::path::PathBuf;
    use std::process::Command;

    /// Slews `CLOCK_MONOTONIC`: 11 % slow for 40 ms, while the rate of the counter is being measured, then 11 % fast
    /// and slow by turns of 3 ms. It asks the system and not the next library: AddressSanitizer's allocator reads the
    /// clock, and a look for a library's function frees memory.
    const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long long slewed(long long real) {
    static long long origin;
    if (!__atomic_load_n(&origin, __ATOMIC_RELAXED)) {
        long long none = 0;
        __atomic_compare_exchange_n(&origin, &none, real, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    long long first = 40000000, turn = 3000000;
    long long passed = real - __atomic_load_n(&origin, __ATOMIC_RELAXED);
    if (passed < first) return origin + passed / 100 * 89;
    long long since = passed - first, pairs = since / (2 * turn), rest = since % (2 * turn);
    long long clock = first / 100 * 89 + pairs * 2 * turn;
    clock += rest < turn ? rest * 111 / 100 : turn / 100 * 111 + (rest - turn) * 89 / 100;
    return origin + clock;
}
int clock_gettime(clockid_t id, struct timespec *time) {
    int answer = syscall(SYS_clock_gettime, id, time);
    if (answer == 0 && id == CLOCK_MONOTONIC) {
        long long clock = slewed(time->tv_sec * 1000000000LL + time->tv_nsec);
        time->tv_sec = clock / 1000000000LL;
        time->tv_nsec = clock % 1000000000LL;
    }
    return answer;
}
"#;

    /// The shim as a library; nothing without a C compiler.
    pub(super) fn build() -> Option<PathBuf> {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (source, library) = (folder.join("slew.c"), folder.join("slew.so"));
        std::fs::write(&source, SOURCE).ok()?;
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .status();
        built
            .is_ok_and(|status| status.success())
            .then_some(library)
    }
}

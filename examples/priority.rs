//! Workers with a round-robin priority, so that they run at once where every core is busy.
//!
//! ```text
//! cargo run --example priority
//! ```
//!
//! The right to it is root's, or comes with `CAP_SYS_NICE` or `RLIMIT_RTPRIO` (systemd: `LimitRTPRIO=1`; Docker:
//! `--cap-add=SYS_NICE --ulimit rtprio=1`). Without it the call fails with `EPERM`, the hook says so, and the worker goes
//! on as before. A handler that does not return keeps its core from everything else: the kernel leaves other threads 5 %
//! (`sched_rt_runtime_us`). By `SCHED_RESET_ON_FORK`, threads and processes that a handler starts have the usual
//! priority.

#[cfg(target_os = "linux")]
fn take_priority(shard: usize) {
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel reads `lowest` and keeps nothing of it; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &lowest) } != 0 {
        let error = std::io::Error::last_os_error();
        println!("the worker of shard {shard} keeps its usual priority: {error}");
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use tickwheel::Builder;

    let timer = Builder::new()
        .shards(1)
        .on_worker_start(take_priority)
        .on_worker_stop(|shard| println!("the worker of shard {shard} ends"))
        .build()?;
    // SAFETY: it reads the calling thread's policy.
    let policy = || unsafe { libc::sched_getscheduler(0) };
    let (tell, told) = channel();
    timer.run_after(Duration::from_millis(1), move || {
        drop(std::thread::spawn(move || tell.send(policy())));
    })?;
    assert_eq!(
        told.recv()?,
        libc::SCHED_OTHER,
        "a thread of a handler has the usual priority"
    );
    assert!(timer.stop()?.is_empty());
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("these priorities are Linux's");
    Ok(())
}

//! An `EventLoopTimer` inside of a loop over `io_uring`: the ring's own timeout bounds the wait, and a pipe that other
//! threads write to ends it.
//!
//! Linux only. Where the system forbids `io_uring`, as containers often do, it says so and ends.
//!
//! ```text
//! cargo run -p tickwheel-util --example io_uring
//! ```

#[cfg(target_os = "linux")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    use io_uring::{IoUring, opcode, types};
    use std::io::{ErrorKind, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;
    use tickwheel::{EventLoopTimer, Settings};

    /// The error of a wait whose time is over.
    const ETIME: i32 = 62;

    let mut ring = match IoUring::new(8) {
        Ok(ring) => ring,
        Err(error) => {
            println!("io_uring is not to be had here: {error}");
            return Ok(());
        }
    };
    let (bell, ringer) = UnixStream::pair()?;
    ringer.set_nonblocking(true)?;
    // A full pipe has woken the loop already.
    let waker = move || drop((&ringer).write(&[1]));
    let mut timer: EventLoopTimer<&str> = EventLoopTimer::with_waker(Settings::new(), waker)?;

    let mut now = timer.now();
    timer.schedule(now, Duration::from_millis(30), "from the loop")?;
    let remote = timer.remote();
    let other = std::thread::spawn(move || {
        remote
            .schedule(Duration::from_millis(5), "from another thread")
            .is_ok()
    });

    // Leaked, because a read may be under way when this function returns.
    let byte: *mut u8 = Box::leak(Box::new(0));
    let mut must_read = true;
    let mut fired = Vec::new();
    while fired.len() < 2 {
        if must_read {
            let read = opcode::Read::new(types::Fd(bell.as_raw_fd()), byte, 1).build();
            // SAFETY: the byte is never freed, and nothing else uses it. The kernel keeps the file open for the read.
            unsafe { ring.submission().push(&read)? };
        }
        // Right before the wait: from here on a remote's earlier timer rings the bell.
        let waited = match timer.poll_timeout(now) {
            Some(Duration::ZERO) => ring.submit(),
            None => ring.submit_and_wait(1),
            Some(pause) => {
                let pause = types::Timespec::from(pause);
                let until = types::SubmitArgs::new().timespec(&pause);
                ring.submitter().submit_with_args(1, &until)
            }
        };
        match waited {
            // The time is over, or a signal has come.
            Err(error) if error.raw_os_error() == Some(ETIME) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            waited => _ = waited?,
        }
        // Sockets come here, before the timers.
        must_read = ring.completion().count() > 0;
        now = timer.now();
        timer.poll(now, |expired| fired.push(expired.payload));
    }
    assert!(other.join().expect("the other thread ends"));
    println!("{fired:?}");
    fired.sort_unstable();
    assert_eq!(fired, ["from another thread", "from the loop"]);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("io_uring is Linux's");
    Ok(())
}

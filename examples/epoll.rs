//! One timer inside of a loop on plain epoll; an eventfd ends the loop's sleep for other threads.
//!
//! ```text
//! cargo run --example epoll
//! ```

#[cfg(target_os = "linux")]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;
    use tickwheel::{EventLoopTimer, Settings};

    fn checked(result: i32) -> io::Result<i32> {
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    }

    // SAFETY: no pointers are involved.
    let (epoll, event) = unsafe {
        (
            checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?,
            checked(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?,
        )
    };
    // SAFETY: both are open and nobody else's.
    let (epoll, mut wake) = unsafe { (OwnedFd::from_raw_fd(epoll), File::from_raw_fd(event)) };
    let mut interest = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 0,
    };
    // SAFETY: the descriptors are open, and `interest` outlives the call.
    checked(unsafe {
        libc::epoll_ctl(
            epoll.as_raw_fd(),
            libc::EPOLL_CTL_ADD,
            wake.as_raw_fd(),
            &mut interest,
        )
    })?;

    let waker = wake.try_clone()?;
    let mut timer: EventLoopTimer<&'static str> =
        EventLoopTimer::with_waker(Settings::new(), move || {
            // This fails only if the counter is full, and then the loop is about to wake up anyway.
            drop((&waker).write(&1u64.to_ne_bytes()));
        })?;

    timer.schedule(timer.now(), Duration::from_secs(3600), "in an hour")?;
    let remote = timer.remote();
    let other = std::thread::spawn(move || {
        remote
            .schedule(Duration::from_millis(2), "in 2 ms, from another thread")
            .map(|_| ())
    });

    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    let mut fired = Vec::new();
    let mut now = timer.now();
    while fired.is_empty() {
        let timeout = timer.poll_timeout_ms(now);
        // SAFETY: the array has room for as many events as are asked for.
        let ready = unsafe {
            libc::epoll_wait(
                epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout,
            )
        };
        let ready = match checked(ready) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        for event in &events[..ready as usize] {
            match event.u64 {
                // The remotes' call: take it off the descriptor.
                0 => drop(wake.read(&mut [0; 8])),
                _socket => {} // serve it
            }
        }
        now = timer.now();
        timer.poll(now, |expired| fired.push(expired.payload));
    }
    assert_eq!(fired, ["in 2 ms, from another thread"]);
    other.join().expect("it does not panic")?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("epoll is Linux's");
    Ok(())
}

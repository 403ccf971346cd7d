//! Processes of a test's own: the same program once more for one test, and a fork.

/// Runs the calling test once more in a process of its own, and returns whether that has been done. Linux ends a child
/// that hangs after ten minutes.
///
/// A panic says there where it was, and no more: std's backtrace needs memory, and waits for itself where it gets none.
pub(crate) fn in_a_process_of_its_own<T: Fn()>(
    _calling: T,
    environment: &[(&str, &std::ffi::OsStr)],
) -> bool {
    const CHILD: &str = "TICKWHEEL_TEST_ALONE";
    if std::env::var_os(CHILD).is_some() {
        // SAFETY: nothing but the process ends by it.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::alarm(600)
        };
        return false;
    }
    let (_, name) = std::any::type_name::<T>()
        .split_once("::")
        .expect("a path of this program");
    let child = std::process::Command::new(std::env::current_exe().expect("it runs"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .envs(environment.iter().copied())
        .output()
        .expect("it can be run once more");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (told, errors) = (text(&child.stdout), text(&child.stderr));
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{told}\n{errors}"
    );
    let tells = |line: &&str| line.contains("skipped: ") || line.contains("resident: ");
    told.lines()
        .chain(errors.lines())
        .filter(tells)
        .for_each(|line| println!("{line}"));
    true
}

/// The exit status of a child that forks here and does `run` within a minute: 0 if that returns `true`.
#[cfg(target_os = "linux")]
pub(crate) fn forked(run: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs on this thread alone; the allocator of the system survives a fork, and no lock that the
    // child takes is held by another thread here.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no fork");
    if child == 0 {
        // SAFETY: nothing is left of a child that hangs.
        unsafe { libc::alarm(60) };
        let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or(false);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        -1
    }
}

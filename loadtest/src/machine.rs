//! Which machine it is, and how much memory this process holds; from `/proc`. What a system does not tell
//! is `None`, shown as "n/a".

/// Returns the model name of the first processor.
pub(crate) fn processor() -> Option<String> {
    field("/proc/cpuinfo", "model name")
}

/// Returns the memory of the whole machine.
pub(crate) fn memory_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemTotal")
}

/// Cores this process may run on, at least 1.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Resident memory of this process in bytes, now.
pub(crate) fn resident_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmRSS")
}

/// Raises the limit of open files as far as this process may; the limit then, `None` where none is known.
#[cfg(unix)]
pub(crate) fn raise_open_files() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let limit = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        hard
    } else {
        soft
    };
    // Signed on FreeBSD.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    Some(limit as u64)
}

/// Other systems have no such limit.
#[cfg(not(unix))]
pub(crate) fn raise_open_files() -> Option<u64> {
    None
}

/// A note for a report if others keep the cores busy, which shows in latency and lateness.
pub(crate) fn busy_note() -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load = load.split(' ').next()?.parse::<f64>().ok()?;
    let (busy, cores) = (load > 0.5, cores());
    busy.then(|| {
        format!("the machine was busy before: a load average of {load:.1} on {cores} cores")
    })
}

/// The text after `name :` in a `/proc` file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// A size such as "1024 kB" in bytes.
fn kibibytes(path: &str, name: &str) -> Option<u64> {
    field(path, name)?
        .split_whitespace()
        .next()?
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

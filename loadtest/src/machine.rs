//! What the run costs the machine: CPU, context switches, memory; and which machine it was.
//!
//! CPU and context switches come from `getrusage` (threads that ended are still counted), memory
//! and names from `/proc`. What a system does not tell is `None`, shown as "n/a".

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The machine, for the head of a report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Cores this process may run on.
    pub(crate) cores: usize,
    /// Model name of the first processor.
    pub(crate) cpu: Option<String>,
    /// Memory of the whole machine in bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Operating system and processor family the program was built for.
    pub(crate) platform: String,
    /// Release of the running kernel.
    pub(crate) kernel: Option<String>,
}

impl Machine {
    /// Looks the machine up.
    pub(crate) fn look_up() -> Self {
        Self {
            cores: cores(),
            cpu: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            memory_bytes: read("/proc/meminfo")
                .and_then(|text| kibibytes(&field(&text, "MemTotal")?)),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
        }
    }
}

/// Cores this process may run on, at least 1.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What the process has used since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    cpu: Option<(Duration, Duration)>,
    switches: Option<(u64, u64)>,
}

impl Usage {
    /// Reads the counters of the whole process.
    #[cfg(unix)]
    pub(crate) fn now() -> Self {
        use nix::sys::resource::{UsageWho, getrusage};
        use nix::sys::time::TimeVal;
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
            return Self::default();
        };
        let duration = |time: TimeVal| {
            let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        let count = |value| u64::try_from(value).unwrap_or(0);
        Self {
            cpu: Some((duration(usage.user_time()), duration(usage.system_time()))),
            switches: Some((
                count(usage.voluntary_context_switches()),
                count(usage.involuntary_context_switches()),
            )),
        }
    }

    /// Other systems do not tell.
    #[cfg(not(unix))]
    pub(crate) fn now() -> Self {
        Self::default()
    }

    /// What was used between `earlier` and `self`.
    pub(crate) fn since(&self, earlier: &Self) -> Cost {
        let cpu = self.cpu.zip(earlier.cpu);
        let switches = self.switches.zip(earlier.switches);
        let seconds = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
        Cost {
            cpu_user_s: cpu.map(|(now, then)| seconds(now.0, then.0)),
            cpu_system_s: cpu.map(|(now, then)| seconds(now.1, then.1)),
            voluntary_switches: switches.map(|(now, then)| now.0.saturating_sub(then.0)),
            involuntary_switches: switches.map(|(now, then)| now.1.saturating_sub(then.1)),
        }
    }
}

/// Use of the machine over a span of time, all threads of the process together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Seconds of CPU in user mode.
    pub(crate) cpu_user_s: Option<f64>,
    /// Seconds of CPU in the kernel.
    pub(crate) cpu_system_s: Option<f64>,
    /// Times a thread gave its core up (slept, waited).
    pub(crate) voluntary_switches: Option<u64>,
    /// Times a thread was pushed off its core.
    pub(crate) involuntary_switches: Option<u64>,
}

/// Resident memory of this process in bytes, now.
pub(crate) fn resident_bytes() -> Option<u64> {
    kibibytes(&field(&read("/proc/self/status")?, "VmRSS")?)
}

/// Resident memory of another process in bytes, now.
pub(crate) fn resident_bytes_of(process: u32) -> Option<u64> {
    kibibytes(&field(&read(&format!("/proc/{process}/status"))?, "VmRSS")?)
}

/// The most resident memory that this process ever had, in bytes.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    kibibytes(&field(&read("/proc/self/status")?, "VmHWM")?)
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The text after `name :` in a `/proc` file.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// `"1024 kB"` in bytes.
fn kibibytes(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_proc_fields() {
        let text = "Name:\tx\nVmRSS:\t    2048 kB\nVmHWM:\t 1 kB\n";
        assert_eq!(kibibytes(&field(text, "VmRSS").unwrap()), Some(2048 * 1024));
        assert_eq!(field(text, "VmSwap"), None);
        assert_eq!(kibibytes("lots"), None);
    }

    #[test]
    fn usage_only_grows() {
        let before = Usage::now();
        let end = std::time::Instant::now() + Duration::from_millis(30);
        while std::time::Instant::now() < end {}
        let cost = Usage::now().since(&before);
        if cfg!(unix) {
            assert!(cost.cpu_user_s.unwrap() + cost.cpu_system_s.unwrap() > 0.0);
        }
    }
}

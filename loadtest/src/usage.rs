//! What a span of time costs this process: CPU and context switches, from `getrusage`, which counts threads that have
//! ended as well.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the process has used since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    cpu: Option<Duration>,
    switches: Option<u64>,
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
            // Another width on other systems.
            #[allow(clippy::useless_conversion)]
            let micros = i64::from(time.tv_sec()) * 1_000_000 + i64::from(time.tv_usec());
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        };
        let switches = [usage.voluntary_context_switches(), usage.involuntary_context_switches()];
        Self {
            cpu: Some(duration(usage.user_time()) + duration(usage.system_time())),
            switches: Some(switches.map(|count| u64::try_from(count).unwrap_or(0)).iter().sum()),
        }
    }

    /// Other systems do not tell.
    #[cfg(not(unix))]
    pub(crate) fn now() -> Self {
        Self::default()
    }

    /// What was used between `earlier` and `self`.
    pub(crate) fn since(&self, earlier: &Self) -> Cost {
        let cpu = self.cpu.zip(earlier.cpu).map(|(now, then)| now.saturating_sub(then));
        let switches = self.switches.zip(earlier.switches);
        Cost {
            cpu_s: cpu.map(|cpu| cpu.as_secs_f64()),
            switches: switches.map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// Use of the machine over a span of time, all threads of the process together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Seconds of CPU.
    pub(crate) cpu_s: Option<f64>,
    /// Times a thread gave its core up or was pushed off it.
    pub(crate) switches: Option<u64>,
}

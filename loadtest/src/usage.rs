//! What a span of time costs this process, and what the rest of the machine did meanwhile.
//!
//! CPU and context switches come from `getrusage`, which counts threads that have ended as well; what
//! others took comes from `/proc/stat`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::machine::{cores, read};

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

/// What all processes together and the hypervisor have taken since they started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surroundings {
    /// Seconds in which the cores worked, and in which a hypervisor kept them from it.
    stat: Option<(f64, f64)>,
}

/// The unit of `/proc/stat`: `USER_HZ`, which is 100 on every Linux that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

impl Surroundings {
    /// Reads the counters.
    pub(crate) fn now() -> Self {
        Self { stat: read("/proc/stat").and_then(|text| stat(&text, cores())) }
    }

    /// What happened between `earlier` and `self`, while this program used `own_cpu_s` seconds of CPU.
    pub(crate) fn since(&self, earlier: &Self, own_cpu_s: Option<f64>) -> Disturbance {
        let difference = |now: f64, then: f64| (now - then).max(0.0);
        let stat = self.stat.zip(earlier.stat);
        let busy = stat.map(|(now, then)| difference(now.0, then.0));
        Disturbance {
            others_cpu_s: busy.zip(own_cpu_s).map(|(busy, own)| difference(busy, own)),
            stolen_cpu_s: stat.map(|(now, then)| difference(now.1, then.1)),
        }
    }
}

/// Busy and stolen seconds of a `/proc/stat`. `None` where it shows other cores than those this process
/// may run on, as in a container with a part of the machine: their work says nothing about ours.
fn stat(text: &str, cores: usize) -> Option<(f64, f64)> {
    let numbered = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if text.lines().filter(numbered).count() != cores {
        return None;
    }
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, irq, soft_irq, steal, ..] = ticks[..] else {
        return None;
    };
    let busy = user + nice + system + irq + soft_irq;
    Some((busy / TICKS_PER_SECOND, steal / TICKS_PER_SECOND))
}

/// What kept this program from the machine's cores over a span of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disturbance {
    /// CPU that other processes used.
    pub(crate) others_cpu_s: Option<f64>,
    /// CPU that the hypervisor gave to others.
    pub(crate) stolen_cpu_s: Option<f64>,
}

/// Part of one core that others may use before a note says so: what a system does by itself.
const SILENT_SHARE: f64 = 0.1;
/// Part of the wanted cores that has to be obtained.
const ENOUGH: f64 = 0.9;

impl Disturbance {
    /// Sentences for a report that say in what the machine was not this program's own. `wanted` and
    /// `obtained` are cores of a load that never rests; `wanted` is 0 for one that does.
    pub(crate) fn notes(&self, seconds: f64, wanted: f64, obtained: Option<f64>) -> Vec<String> {
        let per_second = |value: Option<f64>| value.map(|value| value / seconds.max(1e-9));
        let mut notes = Vec::new();
        if let Some(obtained) = obtained.filter(|obtained| *obtained < ENOUGH * wanted) {
            notes.push(format!(
                "the machine was not its own: it obtained {obtained:.2} of {wanted:.0} cores"
            ));
        }
        let mut say = |cores: Option<f64>, what: &str| {
            if let Some(cores) = cores.filter(|cores| *cores > SILENT_SHARE) {
                notes.push(format!("the machine was not its own: {what} {cores:.2} cores"));
            }
        };
        say(per_second(self.others_cpu_s), "other processes used");
        say(per_second(self.stolen_cpu_s), "the hypervisor gave to others (steal)");
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_is_read_only_where_it_shows_our_cores() {
        let text = "cpu  100 0 50 900 5 1 2 30 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(stat(text, 2), Some((1.53, 0.3)));
        assert_eq!(stat(text, 4), None);
        assert_eq!(stat("cpu  1 2\ncpu0 1\n", 1), None);
    }

    #[test]
    fn a_machine_shared_with_others_is_said() {
        let quiet = Disturbance { others_cpu_s: Some(0.2), stolen_cpu_s: Some(0.0) };
        assert!(quiet.notes(10.0, 2.0, Some(1.95)).is_empty());
        assert!(quiet.notes(10.0, 0.0, Some(0.1)).is_empty(), "a paced load wants no cores");
        let slow = quiet.notes(10.0, 2.0, Some(0.65));
        assert_eq!(slow, ["the machine was not its own: it obtained 0.65 of 2 cores"]);
        let shared = Disturbance { others_cpu_s: Some(13.0), stolen_cpu_s: Some(2.0) };
        let notes = shared.notes(10.0, 0.0, None);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("other processes used 1.30 cores"), "{notes:?}");
    }
}

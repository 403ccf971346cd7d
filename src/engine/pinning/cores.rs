//! The limits of the process: cores by its affinity mask, processor time by its control group.
//!
//! Linux keeps masks per thread, and a thread begins with that of the one that starts it. So the cores of the process
//! are those of its main thread and of each thread that has built an engine, as they were then. Later each of these
//! threads may pin itself, and a handler that builds an engine runs on one core.
//!
//! The quota is that of the nearest limit on the way up the control groups, both versions.

use crate::sync::process::{AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
use crate::sync::system::{CORE_WORDS, CoreSet, MOST_CORES, affinity, is_in, set_affinity};
use crate::types::error::MAX_SHARDS;
use std::cell::OnceCell;
use std::path::Path;

/// Where the next engine of this process begins to take cores.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// See the module.
pub(crate) struct Cores {
    /// In rising order; never empty.
    allowed: Vec<usize>,
    /// Processor time per time, in cores. Read where it is asked for: that opens seven files, two fifths of what the first
    /// sleep in a runtime costs.
    quota: OnceCell<Option<f64>>,
}

impl Cores {
    pub(crate) fn of_this_process() -> Self {
        Self {
            allowed: process_mask(),
            quota: OnceCell::new(),
        }
    }

    /// Creates limits for a test.
    #[cfg(test)]
    pub(super) fn with<const N: usize>(allowed: [usize; N], quota: Option<f64>) -> Self {
        Self {
            allowed: allowed.to_vec(),
            quota: OnceCell::from(quota),
        }
    }

    pub(crate) fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    fn quota(&self) -> Option<f64> {
        *self.quota.get_or_init(process_quota)
    }

    /// Returns one shard for each core, not more than the quota's whole cores, and at least one.
    pub(crate) fn default_shards(&self) -> usize {
        let cores = self.allowed.len();
        self.quota()
            .map_or(cores, |quota| cores.min(quota as usize))
            .clamp(1, MAX_SHARDS)
    }

    /// Returns whether all of the cores are ours all of the time, as far as the quota goes.
    pub(super) fn are_ours(&self) -> bool {
        self.quota()
            .is_none_or(|quota| quota as usize >= self.allowed.len())
    }
}

/// Takes a turn for so many workers: where in the list of cores an engine begins.
pub(super) fn take_turn(workers: usize) -> usize {
    // ORDERING: Relaxed: only the number matters.
    NEXT.fetch_add(workers, Ordering::Relaxed)
}

/// The cores that were the process's whenever an engine was built.
#[cfg(target_os = "linux")]
static NOTED: [AtomicUsize; CORE_WORDS] = [const { AtomicUsize::new(0) }; CORE_WORDS];

/// Notes the cores of the main thread and of the calling one; returns them with those that were noted before.
#[cfg(target_os = "linux")]
fn note_cores() -> CoreSet {
    let main = libc::pid_t::try_from(std::process::id()).unwrap_or(0);
    let [main, own] = [main, 0].map(|thread| affinity(thread).unwrap_or_default());
    std::array::from_fn(|word| {
        let present = main[word] | own[word];
        // ORDERING: Relaxed: the bits say nothing of other memory.
        NOTED[word].fetch_or(present, Ordering::Relaxed) | present
    })
}

/// Returns the cores of the process, in rising order.
#[cfg(target_os = "linux")]
fn process_mask() -> Vec<usize> {
    let noted = note_cores();
    let cores: Vec<usize> = (0..MOST_CORES)
        .filter(|&core| is_in(&noted, core))
        .collect();
    if cores.is_empty() { counted() } else { cores }
}

/// Lets the calling thread use the cores of the process. Calls no allocator.
#[cfg(target_os = "linux")]
pub(super) fn widen_current_thread() -> bool {
    // ORDERING: Relaxed: as in `note_cores`; an engine's build is before its threads.
    let mut cores: CoreSet = std::array::from_fn(|word| NOTED[word].load(Ordering::Relaxed));
    if cores == CoreSet::default() {
        cores = note_cores();
    }
    // A thread without a mask of its own keeps to its control group's cores when these change.
    affinity(0) == Some(cores) || set_affinity(&cores)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn widen_current_thread() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn process_mask() -> Vec<usize> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let mut cores: Vec<usize> = cores.iter().map(|core| core.id).collect();
    cores.sort_unstable();
    if cores.is_empty() { counted() } else { cores }
}

/// Returns as many cores as the standard library counts.
fn counted() -> Vec<usize> {
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

fn process_quota() -> Option<f64> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_of(Path::new("/sys/fs/cgroup"), &groups)
}

/// Returns the least quota of the groups that `/proc/self/cgroup` lists, below the place where groups are mounted.
fn quota_of(mounted: &Path, groups: &str) -> Option<f64> {
    let quotas = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if controllers.is_empty() {
            let unified = ["", "unified"].map(|name| mounted.join(name));
            return unified
                .iter()
                .find_map(|mount| least(mount, path, quota_v2));
        }
        let is_cpu = controllers.split(',').any(|controller| controller == "cpu");
        let mounts = [controllers, "cpu"].map(|name| mounted.join(name));
        is_cpu
            .then(|| mounts.iter().find_map(|mount| least(mount, path, quota_v1)))
            .flatten()
    });
    quotas.reduce(f64::min)
}

/// Returns the least quota of a group and those above it. A container may see a path that is not below its mount.
fn least(mount: &Path, path: &str, quota: fn(&Path) -> Option<f64>) -> Option<f64> {
    let path = Path::new(path.trim_start_matches('/'));
    let inside = !path
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    let group = if inside {
        mount.join(path)
    } else {
        mount.to_owned()
    };
    let groups = group
        .ancestors()
        .take_while(|group| group.starts_with(mount));
    groups.filter_map(quota).reduce(f64::min)
}

/// Reads `cpu.max`: time (or `max`) and period.
fn quota_v2(group: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(group.join("cpu.max")).ok()?;
    let (time, period) = text.trim().split_once(' ')?;
    ratio(time, period)
}

/// Reads `cpu.cfs_quota_us` (-1 for none) and `cpu.cfs_period_us`.
fn quota_v1(group: &Path) -> Option<f64> {
    let read = |name| std::fs::read_to_string(group.join(name)).ok();
    let (time, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
    ratio(time.trim(), period.trim())
}

fn ratio(time: &str, period: &str) -> Option<f64> {
    let (time, period) = (time.parse::<u64>().ok()?, period.parse::<u64>().ok()?);
    (period > 0).then(|| time as f64 / period as f64)
}

#[cfg(test)]
mod tests;

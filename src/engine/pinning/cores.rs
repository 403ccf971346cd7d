//! The limits of the process: cores by its affinity mask, processor time by its control group.
//!
//! The mask is the process's, not that of the thread which happens to build an engine: that may be a worker with one
//! core. Linux keeps masks per thread; the process's is that of its main thread, and what the building thread has
//! beyond that. The quota is that of the nearest limit on the way up the control groups, both versions.

use crate::sync::process::{AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
use crate::sync::system::{CoreSet, MOST_CORES, affinity, is_in, set_affinity};
use crate::types::error::MAX_SHARDS;
use std::path::Path;

/// Where the next engine of this process begins to take cores.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// See the module.
#[derive(Clone)]
pub(crate) struct Cores {
    /// In rising order; never empty.
    allowed: Vec<usize>,
    /// Processor time per time, in cores.
    quota: Option<f64>,
}

impl Cores {
    pub(crate) fn of_this_process() -> Self {
        Self {
            allowed: process_mask(),
            quota: process_quota(),
        }
    }

    /// Creates limits for a test.
    #[cfg(test)]
    pub(super) fn with<const N: usize>(allowed: [usize; N], quota: Option<f64>) -> Self {
        Self {
            allowed: allowed.to_vec(),
            quota,
        }
    }

    pub(crate) fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Returns one shard for each core, not more than the quota's whole cores, and at least one.
    pub(crate) fn default_shards(&self) -> usize {
        let cores = self.allowed.len();
        self.quota
            .map_or(cores, |quota| cores.min(quota as usize))
            .clamp(1, MAX_SHARDS)
    }

    /// Returns whether all of the cores are ours all of the time, as far as the quota goes.
    pub(super) fn are_ours(&self) -> bool {
        self.quota
            .is_none_or(|quota| quota as usize >= self.allowed.len())
    }
}

/// Takes a turn for so many workers: where in the list of cores an engine begins.
pub(super) fn take_turn(workers: usize) -> usize {
    // ORDERING: Relaxed: only the number matters.
    NEXT.fetch_add(workers, Ordering::Relaxed)
}

/// The masks of the main thread and of the calling one.
#[cfg(target_os = "linux")]
fn masks() -> [Option<CoreSet>; 2] {
    [libc::pid_t::try_from(std::process::id()).unwrap_or(0), 0].map(affinity)
}

/// Returns the cores of the main thread and those of the calling one, in rising order.
#[cfg(target_os = "linux")]
fn process_mask() -> Vec<usize> {
    let masks = masks();
    let is_allowed = |&core: &usize| masks.iter().flatten().any(|mask| is_in(mask, core));
    let cores: Vec<usize> = (0..MOST_CORES).filter(is_allowed).collect();
    if cores.is_empty() { counted() } else { cores }
}

/// Lets the calling thread use what the process may use.
#[cfg(target_os = "linux")]
pub(super) fn widen_current_thread() -> bool {
    // Without a list: a worker that leaves its core calls no allocator.
    let [main, own] = masks().map(Option::unwrap_or_default);
    set_affinity(&std::array::from_fn(|word| main[word] | own[word]))
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

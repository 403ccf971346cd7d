//! Which cores are dealt out, and what control groups say about them.

use super::*;
use std::path::PathBuf;

#[test]
fn there_is_always_a_core_and_a_shard() {
    let cores = Cores::of_this_process();
    assert!(!cores.allowed().is_empty() && cores.allowed().is_sorted());
    assert!((1..=MAX_SHARDS).contains(&cores.default_shards()));
}

#[test]
fn a_container_with_less_than_its_cores_gets_fewer_shards_and_does_not_own_them() {
    let all = |quota| Cores::with([0, 1, 2, 3], quota);
    let shards = |quota| all(quota).default_shards();
    assert_eq!(shards(None), 4);
    assert_eq!(shards(Some((400, 100))), 4);
    assert_eq!(shards(Some((250, 100))), 2);
    assert_eq!(shards(Some((50, 100))), 1);
    assert_eq!(shards(Some((900, 100))), 4);
    let ours = |quota| all(quota).are_ours();
    assert!(ours(None) && ours(Some((400, 100))) && ours(Some((800, 100))));
    assert!(!ours(Some((399, 100))) && !ours(Some((100, 100))));
}

/// A folder that looks like mounted control groups.
struct Groups(PathBuf);

impl Groups {
    fn new(name: &str) -> Self {
        let folder = format!("tickwheel-groups-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(folder))
    }

    fn write(&self, group: &str, files: &[(&str, &str)]) {
        let group = self.0.join(group);
        std::fs::create_dir_all(&group).unwrap();
        for (name, text) in files {
            std::fs::write(group.join(name), text).unwrap();
        }
    }

    fn quota(&self, listed: &str) -> Option<(u64, u64)> {
        quota_of(&self.0, listed).map(|quota| (quota.time, quota.period))
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_least_quota_on_the_way_up_counts_in_version_two() {
    let groups = Groups::new("v2");
    groups.write("a/b/c", &[("cpu.max", "max 100000\n")]);
    groups.write("a/b", &[("cpu.max", "300000 100000\n")]);
    groups.write("a", &[("cpu.max", "800000 200000\n")]);
    assert_eq!(groups.quota("0::/a/b/c\n"), Some((300_000, 100_000)));
    assert_eq!(groups.quota("0::/a\n"), Some((800_000, 200_000)));
    assert_eq!(groups.quota("0::/\n"), None);
    assert_eq!(groups.quota("0::/../../elsewhere\n"), None, "only the mount itself is looked at");
    groups.write("", &[("cpu.max", "150000 100000\n")]);
    assert_eq!(groups.quota("0::/../../elsewhere\n"), Some((150_000, 100_000)));
    assert_eq!(groups.quota("0::/gone/a/b\n"), Some((150_000, 100_000)));
}

#[test]
fn version_one_and_the_mixture_of_both_are_read() {
    let groups = Groups::new("v1");
    let quota = |time| [("cpu.cfs_quota_us", time), ("cpu.cfs_period_us", "100000\n")];
    groups.write("cpu,cpuacct/job", &quota("-1\n"));
    let listed = "12:cpuset:/job\n4:cpu,cpuacct:/job\n0::/\n";
    assert_eq!(groups.quota(listed), None);
    groups.write("cpu,cpuacct", &quota("250000\n"));
    assert_eq!(groups.quota(listed), Some((250_000, 100_000)));
    groups.write("unified", &[("cpu.max", "100000 100000\n")]);
    assert_eq!(groups.quota(listed), Some((100_000, 100_000)));
    let other = Groups::new("v1-short");
    other.write("cpu", &quota("50000\n"));
    assert_eq!(other.quota("2:cpuacct,cpu:/job\n"), Some((50_000, 100_000)));
}

#[test]
fn what_cannot_be_read_is_no_quota() {
    let groups = Groups::new("odd");
    for text in ["", "max", "100000", "x 100000", "100000 0", "1 2 3"] {
        groups.write("odd", &[("cpu.max", text)]);
        assert_eq!(groups.quota("0::/odd\n"), None, "{text:?}");
    }
    assert_eq!(groups.quota("nonsense\n:\n::\n"), None);
}

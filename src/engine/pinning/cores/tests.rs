//! Which cores are dealt out, and what control groups say about them.

use super::*;
use std::path::PathBuf;

#[test]
fn there_is_always_a_core_and_a_shard() {
    let cores = Cores::of_this_process();
    assert!(!cores.allowed().is_empty() && cores.allowed().is_sorted());
    assert!((1..=MAX_SHARDS).contains(&cores.default_shards()));
    let parallel = std::thread::available_parallelism().unwrap().get();
    assert!(
        counted().into_iter().eq(0..parallel),
        "where there is no mask"
    );
}

#[test]
fn a_container_with_less_than_its_cores_gets_fewer_shards_and_does_not_own_them() {
    for (quota, shards, ours) in [
        (None, 4, true),
        (Some(9.0), 4, true),
        (Some(4.0), 4, true),
        (Some(3.99), 3, false),
        (Some(2.5), 2, false),
        (Some(0.5), 1, false),
    ] {
        let cores = Cores::with([0, 1, 2, 3], quota);
        assert_eq!(
            (cores.default_shards(), cores.are_ours()),
            (shards, ours),
            "{quota:?}"
        );
    }
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

    fn quota(&self, listed: &str) -> Option<f64> {
        quota_of(&self.0, listed)
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
    for (group, quota) in [
        ("a/b/c", "max 100000\n"),
        ("a/b", "300000 100000\n"),
        ("a", "800000 200000\n"),
    ] {
        groups.write(group, &[("cpu.max", quota)]);
    }
    // Of what lies elsewhere only the mount itself is looked at.
    let listed = [
        "0::/a/b/c\n",
        "0::/a\n",
        "0::/\n",
        "0::/../../elsewhere\n",
        "0::/gone/a/b\n",
    ];
    let read = || listed.map(|listed| groups.quota(listed));
    assert_eq!(read(), [Some(3.0), Some(4.0), None, None, None]);
    groups.write("", &[("cpu.max", "150000 100000\n")]);
    assert_eq!(read(), [Some(1.5); 5]);
}

#[test]
fn version_one_and_the_mixture_of_both_are_read() {
    let groups = Groups::new("v1");
    let quota = |time| {
        [
            ("cpu.cfs_quota_us", time),
            ("cpu.cfs_period_us", "100000\n"),
        ]
    };
    groups.write("cpu,cpuacct/job", &quota("-1\n"));
    let listed = "12:cpuset:/job\n4:cpu,cpuacct:/job\n0::/\n";
    assert_eq!(groups.quota(listed), None);
    groups.write("cpu,cpuacct", &quota("250000\n"));
    assert_eq!(groups.quota(listed), Some(2.5));
    groups.write("unified", &[("cpu.max", "100000 100000\n")]);
    assert_eq!(groups.quota(listed), Some(1.0));
    let other = Groups::new("v1-short");
    other.write("cpu", &quota("50000\n"));
    assert_eq!(other.quota("2:cpuacct,cpu:/job\n"), Some(0.5));
}

#[test]
fn an_unreadable_file_sets_no_quota() {
    let groups = Groups::new("odd");
    for text in ["", "max", "100000", "x 100000", "100000 0", "1 2 3"] {
        groups.write("odd", &[("cpu.max", text)]);
        assert_eq!(groups.quota("0::/odd\n"), None, "{text:?}");
    }
    assert_eq!(groups.quota("nonsense\n:\n::\n"), None);
}

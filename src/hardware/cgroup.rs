//! The memory limit of this process's control groups on Linux: the lowest from its own up to the root, such as a
//! container's or the `MemoryMax` of a slice of systemd.

use std::fs;
use std::path::{Path, PathBuf};

/// What the control groups leave to this process, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CgroupLimit {
    /// The lowest limit.
    pub total: u64,
    /// The least that a group has left; pages of files count as left, since they are given up when memory is needed.
    pub free: u64,
    /// The least swap that a group has left; none where no group limits it.
    pub swap_free: Option<u64>,
}

/// The files of a version of control groups.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// Pages of files in `memory.stat`.
    cached: [&'static str; 2],
    swap: Option<(&'static str, &'static str)>,
}

/// Documentation/admin-guide/cgroup-v2.rst (Linux 6.12).
const V2: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    cached: ["active_file", "inactive_file"],
    swap: Some(("memory.swap.max", "memory.swap.current")),
};

/// Documentation/admin-guide/cgroup-v1/memory.rst (Linux 6.12).
const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_active_file", "total_inactive_file"],
    swap: None,
};

/// The limit by the files under `root`, which is `/`; none where no group sets one. A group without a limit of its own is
/// passed over, and so is one that has no such file because the controller is not enabled in it.
pub(super) fn limit(root: &Path) -> Option<CgroupLimit> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mount = root.join("sys/fs/cgroup");
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        if controllers.split(',').any(|controller| controller == "memory") {
            return Some((&V1, mount.join("memory"), path.to_owned()));
        }
        (number == "0" && controllers.is_empty()).then(|| (&V2, mount.clone(), path.to_owned()))
    };
    let limits = groups.lines().filter_map(of).flat_map(|(files, mount, path)| files.limits(&mount, &path));
    limits.reduce(CgroupLimit::within)
}

impl Files {
    /// The limits from the group of this path up to the mount. In a container the path may be the host's, which is not
    /// there, and the mount itself is the container's group.
    fn limits(&self, mount: &Path, path: &str) -> Vec<CgroupLimit> {
        let mut group: PathBuf = mount.to_owned();
        let names = Path::new(path).components().filter_map(|part| match part {
            std::path::Component::Normal(name) => Some(name),
            _ => None,
        });
        let mut limits: Vec<CgroupLimit> = self.limit_of(&group).into_iter().collect();
        for name in names {
            group.push(name);
            limits.extend(self.limit_of(&group));
        }
        limits
    }

    fn limit_of(&self, group: &Path) -> Option<CgroupLimit> {
        let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
        let total = number(self.limit)?;
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().filter_map(|line| {
            let (name, bytes) = line.split_once(' ')?;
            self.cached.contains(&name).then(|| bytes.trim().parse::<u64>().ok())?
        });
        let used = number(self.used).unwrap_or(0).saturating_sub(cached.fold(0, u64::saturating_add));
        let swap_free = self.swap.and_then(|(limit, used)| Some(number(limit)?.saturating_sub(number(used)?)));
        Some(CgroupLimit { total, free: total.saturating_sub(used), swap_free })
    }
}

impl CgroupLimit {
    /// What both leave.
    fn within(self, other: Self) -> Self {
        Self {
            total: self.total.min(other.total),
            free: self.free.min(other.free),
            swap_free: [self.swap_free, other.swap_free].into_iter().flatten().min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn folder(files: &[(&str, String)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_slice_above_limits_a_service_without_a_limit() {
        let at = |group: &str, file: &str| format!("sys/fs/cgroup/{group}{file}");
        let slice = "models.slice/";
        let service = "models.slice/llama.service/";
        let root = folder(&[
            ("proc/self/cgroup", "0::/models.slice/llama.service\n".to_owned()),
            (&at("", "cgroup.controllers"), "cpu memory\n".to_owned()),
            (&at(slice, "memory.max"), format!("{}\n", 24 * GIB)),
            (&at(slice, "memory.current"), format!("{}\n", 20 * GIB)),
            // 14 GiB of it are a model's file that was read
            (
                &at(slice, "memory.stat"),
                format!("anon {}\nactive_file {}\ninactive_file {}\n", 6 * GIB, 4 * GIB, 10 * GIB),
            ),
            (&at(slice, "memory.swap.max"), "0\n".to_owned()),
            (&at(slice, "memory.swap.current"), "0\n".to_owned()),
            (&at(service, "memory.max"), "max\n".to_owned()),
            (&at(service, "memory.current"), format!("{GIB}\n")),
        ]);
        let expected = CgroupLimit { total: 24 * GIB, free: 18 * GIB, swap_free: Some(0) };
        assert_eq!(limit(root.path()), Some(expected));
        // the service has a lower limit of its own
        fs::write(root.path().join(at(service, "memory.max")), format!("{}", 8 * GIB)).unwrap();
        assert_eq!(limit(root.path()), Some(CgroupLimit { total: 8 * GIB, free: 7 * GIB, swap_free: Some(0) }));
        // the controller is not enabled in it
        fs::remove_file(root.path().join(at(service, "memory.max"))).unwrap();
        assert_eq!(limit(root.path()), Some(expected));
    }

    #[test]
    fn the_first_version_and_none_are_read() {
        let of = |limit: u64| {
            folder(&[
                ("proc/self/cgroup", "4:cpu:/a\n3:memory:/docker/1d6e\n0::/\n".to_owned()),
                // the path is the host's: a container sees its own group at the mount
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", limit.to_string()),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", (3 * GIB).to_string()),
                ("sys/fs/cgroup/memory/memory.stat", format!("cache 1\ntotal_inactive_file {}\n", 2 * GIB)),
            ])
        };
        let expected = CgroupLimit { total: 4 * GIB, free: 3 * GIB, swap_free: None };
        assert_eq!(limit(of(4 * GIB).path()), Some(expected));
        let none = folder(&[("proc/self/cgroup", "0::/user.slice\n".to_owned())]);
        assert_eq!(limit(none.path()), None);
        assert_eq!(limit(Path::new("/nowhere")), None);
    }
}

//! The memory that this process may still use, by the system's files; Linux alone has them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Where a group of processes has its limit: names of the files of the limit and of the use, and the lines of
/// `memory.stat` with the use that the system takes back when it needs memory.
struct Names {
    limit: &'static str,
    used: &'static str,
    files: [&'static str; 2],
}

const V2: Names = Names { limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] };
const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};

/// Checks that memory of a size can be taken: by what the machine has left, by the limits of the process and by those of
/// the control groups (versions 1 and 2) that it belongs to. Where nothing is known, everything can.
///
/// # Errors
/// `OutOfMemory` with what is available and the purpose.
pub fn need(bytes: u128, purpose: &str) -> Result<()> {
    match available() {
        Some((available, by)) if bytes > u128::from(available) => Err(refusal(bytes, purpose, available, by)),
        _ => Ok(()),
    }
}

/// As [`need`], but fewer bytes than [`MANY`] are not compared.
///
/// # Errors
/// As [`need`].
pub fn need_many(bytes: u128, purpose: &str) -> Result<()> {
    if bytes < MANY as u128 { Ok(()) } else { need(bytes, purpose) }
}

fn refusal(bytes: u128, purpose: &str, available: u64, by: &str) -> Error {
    Error::OutOfMemory {
        device: "cpu".into(),
        bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        purpose: format!("{purpose}: {available} bytes are available ({by})"),
    }
}

/// The error of memory that the system has refused, with what is available, which may be in pieces.
pub fn refused(bytes: u128, purpose: &str) -> Error {
    match available() {
        Some((available, by)) => refusal(bytes, purpose, available, by),
        None => Error::OutOfMemory {
            device: "cpu".into(),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            purpose: purpose.into(),
        },
    }
}

/// Bytes from which on the system is asked whether it has so many: it may promise more than it has.
pub const MANY: usize = 64 << 20;

/// An empty list with room for `count` elements. From [`MANY`] bytes on it is compared with what is available first.
///
/// # Errors
/// `OutOfMemory` with the purpose and what is available.
pub fn reserved<T>(count: usize, purpose: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    make_room(&mut list, count, purpose)?;
    Ok(list)
}

/// Room for `more` elements in a list, as in [`reserved`].
///
/// # Errors
/// As [`reserved`].
pub fn make_room<T>(list: &mut Vec<T>, more: usize, purpose: &str) -> Result<()> {
    let bytes = more as u128 * size_of::<T>() as u128;
    need_many(bytes, purpose)?;
    list.try_reserve_exact(more).map_err(|_| refused(bytes, purpose))
}

/// Removes all elements and leaves room for `count`, in the memory that the list has if that is enough: the pages of new memory cost
/// more than a copy.
///
/// # Errors
/// As [`reserved`].
pub fn emptied<T>(list: &mut Vec<T>, count: usize, purpose: &str) -> Result<()> {
    list.clear();
    if list.capacity() < count {
        *list = reserved(count, purpose)?;
    }
    Ok(())
}

/// A copy of elements.
///
/// # Errors
/// As [`reserved`].
pub fn copied<T: Copy>(elements: &[T], purpose: &str) -> Result<Vec<T>> {
    let mut list = reserved(elements.len(), purpose)?;
    list.extend_from_slice(elements);
    Ok(list)
}

/// So many elements of one value.
///
/// # Errors
/// As [`reserved`].
pub fn filled<T: Clone>(count: usize, value: T, purpose: &str) -> Result<Vec<T>> {
    let mut list = reserved(count, purpose)?;
    list.resize(count, value);
    Ok(list)
}

/// The bytes that this process may still take, and what limits them.
fn available() -> Option<(u64, &'static str)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut known = Vec::new();
    let machine = read("/proc/meminfo");
    if let Some(left) = kilobytes(&machine, "MemAvailable:") {
        known.push((left + kilobytes(&machine, "SwapFree:").unwrap_or(0), "of the machine"));
    }
    let (limits, status) = (read("/proc/self/limits"), read("/proc/self/status"));
    for (limit, used) in [("Max address space", "VmSize:"), ("Max data size", "VmData:")] {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit));
        let most = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        if let (Some(most), Some(used)) = (most, kilobytes(&status, used)) {
            known.push((most.saturating_sub(used), "of the limit of the process"));
        }
    }
    for (folder, names) in groups(&read("/proc/self/cgroup")) {
        known.extend(left_in(&folder, names).map(|left| (left, "of its control group")));
    }
    known.into_iter().min()
}

/// The bytes of a line such as `MemAvailable: 3 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of the control groups in a text like that of `/proc/self/cgroup`, each from the process' own to the root.
fn groups(text: &str) -> Vec<(PathBuf, &'static Names)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, names) = match controllers {
            "" => ("/sys/fs/cgroup", &V2),
            _ if controllers.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", &V1),
            _ => continue,
        };
        // Within a container the path may be that outside of it; then only the root is there.
        found.extend(Path::new(path).ancestors().map(|own| {
            let own = own.strip_prefix("/").unwrap_or(own);
            (Path::new(root).join(own), names)
        }));
    }
    found
}

/// The bytes left in a control group; `None` without a limit.
fn left_in(folder: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, used) = (number(names.limit)?, number(names.used)?);
    let stat = read("memory.stat").unwrap_or_default();
    let line = |line: &str| {
        let (name, number) = line.split_once(' ')?;
        number.parse::<u64>().ok().filter(|_| names.files.contains(&name))
    };
    let files: u64 = stat.lines().filter_map(line).sum();
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found_up_to_the_root() {
        let found =
            |text: &str| groups(text).into_iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>();
        let root = "/sys/fs/cgroup";
        assert_eq!(found("0::/a/b\n"), [format!("{root}/a/b"), format!("{root}/a"), format!("{root}/")]);
        assert_eq!(found("4:cpu:/c\n3:memory,hugetlb:/c\n"), [format!("{root}/memory/c"), format!("{root}/memory/")]);
        assert!(found("garbage\n1:name=systemd:/x").is_empty());
    }

    #[test]
    fn what_files_use_is_available() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let left = |names| left_in(folder.path(), names);
        assert_eq!(left(&V2), None);
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        assert_eq!(left(&V2), None);
        write("memory.max", "1000\n");
        assert_eq!(left(&V2), Some(300));
        write("memory.stat", "anon 400\ninactive_file 200\nactive_file 50\ntotal_inactive_file 100\n");
        assert_eq!(left(&V2), Some(550));
        write("memory.limit_in_bytes", "500\n");
        write("memory.usage_in_bytes", "600\n");
        assert_eq!(left(&V1), Some(0));
    }

    #[test]
    fn more_than_there_is_is_refused_with_the_numbers() {
        need(1, "a byte").unwrap();
        if cfg!(target_os = "linux") {
            let error = need(1 << 60, "a test").unwrap_err().to_string();
            assert!(
                error.starts_with("cpu: out of memory allocating 1152921504606846976 bytes for a test: "),
                "{error}"
            );
            assert!(error.contains(" bytes are available (of "), "{error}");
        }
        assert!(filled(usize::MAX / 16, 0u64, "a test").is_err());
        assert_eq!(filled(2, 7u8, "a test").unwrap(), [7, 7]);
    }
}

//! Locks on folders, each of one process, which end with it whatever ends it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Name of the file that is locked, in the folder. It has the id of the process, and is removed with the lock.
pub const NAME: &str = "run.lock";

/// The locked files of this process by number: in one place, so that a fork can close them.
static HELD: Mutex<BTreeMap<u64, File>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

fn held() -> MutexGuard<'static, BTreeMap<u64, File>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes the files that a fork has from its parent: while one is open, the lock outlives the parent.
pub(super) fn close_inherited() {
    // A thread of the parent that held the mutex at the fork never returns it.
    match HELD.try_lock() {
        Ok(mut held) => held.clear(),
        Err(std::sync::TryLockError::Poisoned(held)) => held.into_inner().clear(),
        Err(std::sync::TryLockError::WouldBlock) => {}
    }
}

/// A folder that no other holder of such a lock uses, in this process or another, until it is dropped.
pub struct FolderLock {
    number: u64,
    file: PathBuf,
    process: u32,
}

/// The outcome of [`FolderLock::take`].
pub enum Taken {
    /// The lock.
    Held(FolderLock),
    /// Another holder has it, of the process with this id if it is known.
    Busy(Option<u32>),
    /// The file system has no locks.
    Impossible(io::Error),
}

impl FolderLock {
    /// Takes the lock of an existing folder without waiting.
    ///
    /// # Errors
    /// That of opening the file.
    pub fn take(folder: &Path) -> io::Result<Taken> {
        let path = folder.join(NAME);
        loop {
            let file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                    return Ok(Taken::Busy(holder));
                }
                Err(TryLockError::Error(cause)) => return Ok(Taken::Impossible(cause)),
            }
            // Its holder may have removed the file between the two calls.
            if is_at(&file, &path)? {
                let process = super::id();
                // Only for messages: a full disk is no reason to have no lock.
                let _ = file.set_len(0).and_then(|()| writeln!(&file, "{process}"));
                let number = NEXT.fetch_add(1, Relaxed);
                held().insert(number, file);
                return Ok(Taken::Held(FolderLock { number, file: path, process }));
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.process != super::id() {
            return;
        }
        if let Some(file) = held().remove(&self.number) {
            // In this order, so that nobody locks a file that is then removed without finding out.
            let _ = fs::remove_file(&self.file);
            // Also for a fork that has the file open, too.
            let _ = file.unlock();
        }
    }
}

/// The file to lock: made if it is missing, and a file of another user, or a folder of that name, as it is.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink()) {
        return Err(io::Error::other(format!("{NAME} is a link, which is not followed; remove it")));
    }
    let made = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    made.or_else(|cause| match cause.kind() {
        ErrorKind::PermissionDenied | ErrorKind::IsADirectory => File::open(path).map_err(|_| cause),
        _ => Err(cause),
    })
}

/// Whether a path names an open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// Whether a path names an open file.
#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> io::Result<bool> {
    fs::exists(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let take = || FolderLock::take(folder.path()).unwrap();
        for _ in 0..2 {
            let Taken::Held(lock) = take() else { panic!("the folder is free") };
            assert!(matches!(take(), Taken::Busy(Some(holder)) if holder == std::process::id()));
            drop(lock);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the file is removed");
        }
        // What a killed process leaves.
        fs::write(folder.path().join(NAME), "1\n").unwrap();
        assert!(matches!(take(), Taken::Held(_)));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_of_the_name_is_locked_itself() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(NAME)).unwrap();
        let take = || FolderLock::take(folder.path()).unwrap();
        let Taken::Held(lock) = take() else { panic!("the folder is free") };
        assert!(matches!(take(), Taken::Busy(None)));
        drop(lock);
        assert!(matches!(take(), Taken::Held(_)));
    }
}

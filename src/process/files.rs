//! Files that are replaced whole: whatever fails, each has its old content or its new one.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The content of one file, until all are written.
struct Unfinished {
    file: PathBuf,
    target: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Once it has its own name there is none of this one.
        let _ = fs::remove_file(&self.file);
    }
}

/// Makes each content that of its file, all or, if one cannot be written, none; folders are made if they are missing. A link
/// stays one, and what is no file, such as a terminal, is written as it is.
///
/// # Errors
/// The file, and what the system answered.
///
/// ```
/// let folder = std::env::temp_dir().join(format!("grilly-files-{}", std::process::id()));
/// let file = folder.join("deep").join("a.txt");
/// grilly::process::files::replace(&[(&file, b"new")]).unwrap();
/// assert_eq!(std::fs::read(&file).unwrap(), b"new");
/// assert!(grilly::process::files::replace(&[(&file, b"other"), (&folder, b"a folder")]).is_err());
/// assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
/// assert_eq!(std::fs::read(&file).unwrap(), b"new");
/// # std::fs::remove_dir_all(folder).unwrap();
/// ```
pub fn replace(files: &[(&Path, &[u8])]) -> Result<(), (PathBuf, io::Error)> {
    let mut written = Vec::with_capacity(files.len());
    for (path, content) in files {
        written.extend(write(path, content).map_err(|cause| (path.to_path_buf(), cause))?);
    }
    for Unfinished { file, target } in &written {
        fs::rename(file, target).map_err(|cause| (target.clone(), cause))?;
    }
    Ok(())
}

/// Writes a content beside its file; `None` for what is no file, which has it then.
fn write(path: &Path, content: &[u8]) -> io::Result<Option<Unfinished>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let target = match fs::canonicalize(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => path.to_owned(),
        found => found?,
    };
    let standing = fs::metadata(&target).ok();
    if standing.as_ref().is_some_and(|found| !found.is_file()) {
        return fs::write(path, content).map(|()| None);
    }
    let name = format!(".{}-{}.unfinished", super::id(), NEXT.fetch_add(1, Relaxed));
    let unfinished = Unfinished { file: target.with_file_name(name), target };
    File::create_new(&unfinished.file)?.write_all(content)?;
    if let Some(found) = standing {
        fs::set_permissions(&unfinished.file, found.permissions())?;
    }
    Ok(Some(unfinished))
}

//! Files for a folder of the user's: each is whole or absent, links are not followed, and nothing is replaced unasked.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Error, Result, exit};

/// Bytes that are written between two looks for a request to stop.
const PIECE: usize = 8 << 20;

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// It is an error, before anything is written.
    #[default]
    Refuse,
    /// It is replaced; a link itself, not what it names.
    Replace,
}

impl From<bool> for Existing {
    /// By whether files may be overwritten.
    fn from(overwrite: bool) -> Self {
        if overwrite { Existing::Replace } else { Existing::Refuse }
    }
}

/// Writes files, with their names relative to `folder`, which is made if it is missing like those inside it. They are all
/// written under other names first: after an error or a stop before the last of these is done, nothing has changed.
///
/// # Errors
/// `InvalidArgument` naming a file that is there or cannot be written, or a folder inside `folder` that is a link;
/// `Interrupted`.
pub fn write(folder: &Path, files: &[(impl AsRef<Path>, impl AsRef<[u8]>)], existing: Existing) -> Result<()> {
    let paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.join(name)).collect();
    for path in &paths {
        // Also of a link that names nothing.
        match fs::symlink_metadata(path) {
            Ok(about) if !about.is_file() && !about.is_symlink() => {
                return Err(fault(
                    path,
                    "cannot be written: it is a folder or a device; name a file in a folder that can be",
                ));
            }
            Ok(_) if existing == Existing::Refuse => return Err(there(path)),
            _ => {}
        }
    }
    fs::create_dir_all(folder).map_err(unwritten(paths.first().map_or(folder, PathBuf::as_path)))?;
    let mut made = Unfinished(Vec::with_capacity(files.len()));
    for ((name, content), path) in files.iter().zip(&paths) {
        inside(folder, name.as_ref())?;
        let unfinished = made.name(path);
        write_one(&unfinished, content.as_ref(), path)?;
    }
    for (unfinished, path) in made.0.iter().zip(&paths) {
        put(unfinished, path, existing)?;
    }
    Ok(())
}

/// Makes the folders of a file inside `folder`, and refuses links among them.
fn inside(folder: &Path, name: &Path) -> Result<()> {
    let mut place = folder.to_owned();
    for part in name.parent().into_iter().flat_map(Path::components) {
        place.push(part);
        match fs::symlink_metadata(&place) {
            Ok(about) if about.is_symlink() => {
                return Err(fault(&place, "is a link, which is not followed; remove it"));
            }
            Ok(_) => {}
            Err(_) => fs::create_dir(&place).map_err(unwritten(&place))?,
        }
    }
    Ok(())
}

fn write_one(unfinished: &Path, content: &[u8], path: &Path) -> Result<()> {
    let mut file = File::create_new(unfinished).map_err(unwritten(path))?;
    for piece in content.chunks(PIECE) {
        exit::check()?;
        file.write_all(piece).map_err(unwritten(path))?;
    }
    Ok(())
}

/// Gives a finished file its name.
fn put(unfinished: &Path, path: &Path, existing: Existing) -> Result<()> {
    if existing == Existing::Refuse {
        // Unlike a rename, a second name never replaces a file that was made meanwhile.
        match fs::hard_link(unfinished, path) {
            Ok(()) => return Ok(()),
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => return Err(there(path)),
            // A file system without second names.
            Err(_) => {}
        }
    }
    fs::rename(unfinished, path).map_err(unwritten(path))
}

/// Files under other names than theirs, which are removed in the end.
struct Unfinished(Vec<PathBuf>);

impl Unfinished {
    /// A name beside `path` that no other writer has.
    fn name(&mut self, path: &Path) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let own = format!(".{}-{}.unfinished", super::id(), NEXT.fetch_add(1, Relaxed));
        let name = path.with_file_name(own);
        self.0.push(name.clone());
        name
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for name in &self.0 {
            // Those that were renamed are gone.
            let _ = fs::remove_file(name);
        }
    }
}

fn fault(path: &Path, problem: &str) -> Error {
    Error::InvalidArgument(format!("{}: {problem}", path.display()))
}

fn there(path: &Path) -> Error {
    fault(path, "is there already; name another place, or replace it by overwrite=True (--overwrite)")
}

fn unwritten(path: &Path) -> impl Fn(io::Error) -> Error {
    move |cause| fault(path, &format!("cannot be written: {cause}; name a file in a folder that can be written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_replaced_only_where_that_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("new");
        let files = [("a", "1"), ("in/b", "2")];
        write(&folder, &files, Existing::Refuse).unwrap();
        assert_eq!((names(&folder), names(&folder.join("in"))), (vec!["a".into(), "in".into()], vec!["b".into()]));
        let error = write(&folder, &[("c", "3"), ("a", "3")], Existing::Refuse).unwrap_err().to_string();
        assert!(error.contains("/a: is there already"), "{error}");
        assert_eq!(names(&folder), ["a", "in"], "nothing was written");
        write(&folder, &[("a", "3")], Existing::Replace).unwrap();
        assert_eq!(fs::read(folder.join("a")).unwrap(), b"3");
        assert!(write(&folder, &[("in", "3")], Existing::Replace).is_err());
        assert!(write(&folder.join("a"), &files, Existing::Replace).unwrap_err().to_string().contains("cannot be"));
        assert_eq!(names(&folder), ["a", "in"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let (folder, other) = (place.path().join("folder"), place.path().join("other"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(&other).unwrap();
        symlink(other.join("target"), folder.join("a")).unwrap();
        assert!(write(&folder, &[("a", "1")], Existing::Refuse).is_err(), "also of a link that names nothing");
        fs::write(other.join("target"), "own").unwrap();
        write(&folder, &[("a", "1")], Existing::Replace).unwrap();
        assert_eq!(fs::read(other.join("target")).unwrap(), b"own");
        assert!(!fs::symlink_metadata(folder.join("a")).unwrap().is_symlink());
        symlink(&other, folder.join("in")).unwrap();
        let error = write(&folder, &[("in/b", "2")], Existing::Replace).unwrap_err().to_string();
        assert!(error.contains("/in: is a link"), "{error}");
        assert_eq!(names(&other), ["target"]);
    }
}

//! Files of a folder: which there are, and what those that are text say. A file may take long: they are read by threads of their
//! own, of which one more item is taken when one is done.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::UNIX_EPOCH;

use super::passages::{Cutter, Passage, paragraphs};
use crate::exit::Request;
use crate::{Error, Result};

/// Threads at most; bytes in which a file that is not text has a zero; bytes of files after which a call reads no more.
const THREADS: usize = 8;
const BEGINNING: u64 = 1 << 13;
const MOST: usize = 1 << 22;

/// The size of a file, and the nanoseconds since 1970 at which it was changed last.
pub type State = (u64, i64);

/// What is below a folder.
#[derive(Debug, Default)]
pub struct Listed {
    /// The paths of files in it, in order.
    pub files: Vec<String>,
    /// What is left out, and why.
    pub problems: Vec<(String, String)>,
    /// Paths that are not UTF-8.
    pub unnamed: Vec<OsString>,
}

/// The files below a folder, without files and folders whose name starts with a dot. A link to a folder is not followed.
///
/// # Errors
/// `Interrupted`.
pub fn walk(root: &Path) -> Result<Listed> {
    let mut listed = Listed::default();
    let mut folders = vec![String::new()];
    while !folders.is_empty() {
        let found = each(&folders, |folder| Entries::of(root, folder), || false)?;
        folders.clear();
        for own in found {
            listed.files.extend(own.files);
            folders.extend(own.folders);
            listed.problems.extend(own.problems);
            listed.unnamed.extend(own.unnamed);
        }
        folders.sort_unstable();
    }
    listed.files.sort(); // each folder's are sorted
    Ok(listed)
}

/// The states of files of a folder, `None` of one that has none now.
///
/// # Errors
/// `Interrupted`.
pub fn states(root: &Path, paths: &[String]) -> Result<Vec<Option<State>>> {
    each(paths, |path| fs::metadata(root.join(path)).ok().as_ref().map(state), || false)
}

/// What is in a folder: the paths of files, and those of folders, which end with `/`.
#[derive(Default)]
struct Entries {
    files: Vec<String>,
    folders: Vec<String>,
    problems: Vec<(String, String)>,
    unnamed: Vec<OsString>,
}

impl Entries {
    fn of(root: &Path, folder: &str) -> Self {
        let mut found = Entries::default();
        if let Err(error) = found.read(root, folder) {
            let named = if folder.is_empty() { "." } else { folder };
            found.problems.push((named.to_owned(), reason(&error)));
        }
        found.files.sort_unstable();
        found
    }

    fn read(&mut self, root: &Path, folder: &str) -> io::Result<()> {
        for entry in fs::read_dir(root.join(folder))? {
            let entry = entry?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let Some(known) = name.to_str() else {
                let mut path = OsString::from(folder);
                path.push(&name);
                self.unnamed.push(path);
                continue;
            };
            let path = format!("{folder}{known}");
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folders.push(path + "/"),
                Ok(kind) if kind.is_file() => self.files.push(path),
                Ok(kind) if kind.is_symlink() => match fs::metadata(root.join(&path)) {
                    Ok(state) if state.is_file() => self.files.push(path),
                    // Such as a link to a folder, and one to a file that is gone.
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => self.problems.push((path, reason(&error))),
                },
                Ok(_) => {}
                Err(error) => self.problems.push((path, reason(&error))),
            }
        }
        Ok(())
    }
}

fn state(found: &fs::Metadata) -> State {
    let nanoseconds = |time: std::time::Duration| time.as_nanos() as i64;
    let changed = found.modified().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => nanoseconds(after),
        Err(before) => -nanoseconds(before.duration()),
    });
    (found.len(), changed)
}

/// The system's words for an error, without its number.
pub fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    words.split_once(" (os error").map_or(words.as_str(), |(words, _)| words).to_owned()
}

/// Why the text of a file is left out.
#[derive(Debug)]
pub enum Unread {
    /// It cannot be read now.
    File(io::Error),
    /// What it has is no text, or none that can be cut.
    Text(Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Unread::File(error)
    }
}

/// The text of a file, with lines that end with `\n`; `None` if it is not one, of which only the beginning is read.
///
/// # Errors
/// `File`, and `Text` where it is not UTF-8, nor UTF-16 with its mark.
pub fn text(path: &Path) -> Result<Option<String>, Unread> {
    text_of(File::open(path)?)
}

fn text_of(mut file: File) -> Result<Option<String>, Unread> {
    let mut content = Vec::with_capacity(BEGINNING as usize);
    let beginning = Read::by_ref(&mut file).take(BEGINNING).read_to_end(&mut content)?;
    let decode: Option<fn([u8; 2]) -> u16> = match content {
        _ if content.starts_with(b"\xff\xfe") => Some(u16::from_le_bytes),
        _ if content.starts_with(b"\xfe\xff") => Some(u16::from_be_bytes),
        _ if content.contains(&0) => return Ok(None),
        _ => None,
    };
    if beginning as u64 == BEGINNING {
        file.read_to_end(&mut content)?;
    }
    let mut text = match decode {
        Some(decode) => wide(&content[2..], decode),
        None => String::from_utf8(content).map_err(|error| {
            let place = error.utf8_error().valid_up_to() + 1;
            let problem = format!("byte {place} is not UTF-8; iconv -t utf-8 converts a file");
            Unread::Text(Error::InvalidArgument(problem))
        })?,
    };
    if decode.is_none() && text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(Some(if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text }))
}

/// UTF-16, in which a replacement character stands for what is none.
fn wide(content: &[u8], decode: fn([u8; 2]) -> u16) -> String {
    let (units, rest) = content.as_chunks::<2>();
    let read = char::decode_utf16(units.iter().map(|unit| decode(*unit)));
    let mut text: String = read.map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.extend((!rest.is_empty()).then_some(char::REPLACEMENT_CHARACTER));
    text
}

/// A file that was opened, with its state before it was read.
#[derive(Debug)]
pub struct Opened {
    /// None of one that cannot be opened.
    pub state: Option<State>,
    /// Those that it has.
    pub passages: Result<Vec<Passage>, Unread>,
}

/// The passages of files that are read as text; of the first files alone where together they are large.
///
/// # Errors
/// `Interrupted`.
pub fn read(folder: &Path, paths: &[String], cutter: &Cutter<'_>) -> Result<Vec<Opened>> {
    let bytes = AtomicUsize::new(0);
    let passages = |file: File| {
        let Some(text) = text_of(file)? else { return Ok(Vec::new()) };
        bytes.fetch_add(text.len(), Relaxed);
        cutter.cut(&paragraphs(&text)).map_err(Unread::Text)
    };
    let opened = |path: &String| match File::open(folder.join(path)) {
        Ok(file) => Opened { state: file.metadata().ok().as_ref().map(state), passages: passages(file) },
        Err(error) => Opened { state: None, passages: Err(error.into()) },
    };
    each(paths, opened, || bytes.load(Relaxed) >= MOST)
}

/// What `one` makes of the first items, at least of one: those that were taken when there was `enough`.
fn each<T: Sync, R: Send>(
    items: &[T],
    one: impl Fn(&T) -> R + Sync,
    enough: impl Fn() -> bool + Sync,
) -> Result<Vec<R>> {
    let request = Request::current();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        while !request.made() && !enough() {
            let place = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(place) else { break };
            made.push((place, one(item)));
        }
        made
    };
    let others = thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(items.len()).saturating_sub(1);
    let mut made: Vec<(usize, R)> = thread::scope(|scope| {
        let start =
            |_| thread::Builder::new().name("grilly-files".into()).spawn_scoped(scope, || request.serve(work)).ok();
        let threads: Vec<_> = (0..others).filter_map(start).collect();
        let mut made = work();
        made.extend(threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))));
        made
    });
    if request.made() {
        return Err(Error::Interrupted);
    }
    made.sort_unstable_by_key(|(place, _)| *place);
    Ok(made.into_iter().map(|(_, found)| found).collect())
}

#[cfg(test)]
mod tests;

//! Files of a folder, and documents cut into passages: `grilly.commands`.

use std::ffi::OsString;

use grilly::Error;
use grilly::text::files::{self, Opened, State, Unread};
use grilly::text::passages::{self, Cutter, Passage, Placed};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{PyResult, Raised};
use crate::lock;
use crate::text::{self, List, Location, Name};
use crate::tokenizer::Tokenizer;

/// Line, digest and text.
type Part<'py> = (usize, Bound<'py, PyBytes>, String);
/// The state of a file, whose time is -1 if it was changed a moment ago; its parts; why it has none, or `""`; whether it may have
/// some the next time, as it is.
type Read<'py> = (Option<State>, Vec<Part<'py>>, String, bool);
/// The paths of files, those that are not UTF-8, and what is left out with the reason.
type Listed = (Vec<String>, Vec<OsString>, Vec<(String, String)>);

fn parts(py: Python<'_>, found: Vec<Passage>) -> Vec<Part<'_>> {
    found.into_iter().map(|part| (part.line, PyBytes::new(py, &part.digest), part.text)).collect()
}

/// A file's state, whose time is -1 if it was changed at `recent` or later.
fn settled(state: Option<State>, recent: i64) -> Option<State> {
    state.map(|(size, changed)| (size, if changed < recent { changed } else { -1 }))
}

/// The files below a folder, in order.
#[pyfunction]
pub(crate) fn walk_files(py: Python<'_>, root: Location) -> PyResult<Listed> {
    let found = lock::without(py, || files::walk(&root.0))?;
    Ok((found.files, found.unnamed, found.problems))
}

/// The states of files, None of one that has none now; the time of those that were changed at `recent` or later is -1.
#[pyfunction]
pub(crate) fn file_states(
    py: Python<'_>,
    folder: Location,
    paths: List<'_, '_>,
    recent: i64,
) -> PyResult<Vec<Option<State>>> {
    let paths = text::strings(paths, "paths")?;
    let found = lock::without(py, || files::states(&folder.0, &paths))?;
    Ok(found.into_iter().map(|state| settled(state, recent)).collect())
}

/// The text of a file; None if it is not one.
#[pyfunction]
pub(crate) fn read_text(py: Python<'_>, path: Location) -> PyResult<Option<String>> {
    let raised = |unread| -> Raised {
        match unread {
            Unread::File(error) => match error.raw_os_error() {
                Some(number) => PyOSError::new_err((number, files::reason(&error))).into(),
                None => PyErr::from(error).into(),
            },
            Unread::Text(error) => error.into(),
        }
    };
    lock::without(py, || Ok(files::text(&path.0)))?.map_err(raised)
}

/// The passages of the first of some text files, of all unless together they are large.
#[pyfunction]
pub(crate) fn read_files<'py>(
    py: Python<'py>,
    tokenizer: &Tokenizer,
    limit: usize,
    folder: Location,
    paths: List<'_, '_>,
    recent: i64,
) -> PyResult<Vec<Read<'py>>> {
    let paths = text::strings(paths, "paths")?;
    let found = tokenizer.cutting(py, limit, |cutter| files::read(&folder.0, &paths, cutter))?;
    let read = |own: Opened| {
        let (parts, problem, again) = match own.passages {
            Ok(found) => (parts(py, found), String::new(), false),
            Err(Unread::File(error)) => (Vec::new(), files::reason(&error), true),
            Err(Unread::Text(error)) => (Vec::new(), error.to_string(), !matches!(error, Error::InvalidArgument(_))),
        };
        (settled(own.state, recent), parts, problem, again)
    };
    Ok(found.into_iter().map(read).collect())
}

/// What blank lines divide, with the first line of each.
#[pyfunction]
pub(crate) fn paragraphs(text: Name) -> Vec<(usize, String)> {
    let text = text.0.replace("\r\n", "\n");
    passages::paragraphs(&text).into_iter().map(|(line, own)| (line, own.to_owned())).collect()
}

/// The passages of a document's paragraphs.
#[pyfunction]
pub(crate) fn cut_passages<'py>(
    py: Python<'py>,
    tokenizer: &Tokenizer,
    limit: usize,
    paragraphs: Vec<(usize, Name)>,
) -> PyResult<Vec<Part<'py>>> {
    let given: Vec<Placed<'_>> = paragraphs.iter().map(|(line, text)| (*line, text.0.as_str())).collect();
    Ok(parts(py, tokenizer.cutting(py, limit, |cutter| cutter.cut(&given))?))
}

impl Tokenizer {
    /// Runs work with what cuts passages of at most `limit` tokens.
    fn cutting<T: Send>(
        &self,
        py: Python<'_>,
        limit: usize,
        work: impl FnOnce(&Cutter<'_>) -> grilly::Result<T> + Send,
    ) -> PyResult<T> {
        let model = self.model.get().0.get()?;
        lock::without(py, || {
            let tokenizer = model.first().tokenizer();
            let count = |texts: &[Placed<'_>]| {
                let texts: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
                tokenizer.counts(&texts)
            };
            work(&Cutter { limit, count: &count })
        })
    }
}

//! Memory-mapped checkpoints, safetensors or torch's, single or sharded, under uniform names.
#![allow(unsafe_code)]

mod content;
mod files;
mod header;
mod numbers;
#[cfg(test)]
mod tests;
mod torch;
mod unexpected;

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::spec::NameRules;
use crate::dtype::DType;
use crate::process::memory::{need_many, refused};
use crate::tensor::{Origin, TensorView, WeightSource};
use crate::{Error, Result};
pub use content::Content;
use content::first_float;
use unexpected::Form;

/// Maximum number of faults of a checkpoint that are listed; further ones are only counted.
const MOST_PROBLEMS: usize = 1000;

/// Name and shape of a tensor that a graph needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// Uniform name (after `NameRules`); tensors of a module's own folder have it as a prefix: `2_Dense/linear.weight`.
    pub name: String,
    /// Expected axes.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub content: Content,
}

/// All tensors of a model, mapped into memory.
pub struct Weights {
    /// Path for error messages: the Transformer's single file, or its folder if sharded.
    path: PathBuf,
    maps: Vec<Mmap>,
    /// Their paths.
    files: Vec<PathBuf>,
    tensors: BTreeMap<String, Entry>,
    stored: Option<StatedType>,
    rules: NameRules,
    /// The type to which all numbers are rounded, as if the checkpoint were stored in it; float32 for no rounding.
    pub rounded: DType,
}

/// The type in which a checkpoint is stored, and where it is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedType {
    /// The file.
    pub file: PathBuf,
    /// The key, or a description of the tensor that determines it.
    pub key: String,
    /// The type's name.
    pub name: String,
}

/// One available tensor.
#[derive(Clone)]
struct Entry {
    /// Index into `Weights::maps` of its file.
    map: usize,
    /// Which of equal blocks of a stored tensor's rows it is.
    block: usize,
    stored: header::Stored,
    /// The stored names of other tensors with its uniform name.
    others: Vec<String>,
}

impl Weights {
    /// Maps the checkpoint in `transformer` under `rules`, and each folder of `modules` (relative to `folder`;
    /// duplicates are mapped once) without renaming.
    ///
    /// # Errors
    /// `ModelFormat` for a container that is truncated, corrupt or inconsistent, or that is in no known format.
    pub fn open(folder: &Path, transformer: &str, modules: &[String], rules: &NameRules) -> Result<Self> {
        let checkpoint = files::checkpoint(&folder.join(transformer), rules.torch_first)?;
        let path = checkpoint.shown.clone();
        let stored = checkpoint.stated.map(|(file, name)| StatedType { file, key: "metadata.dtype".into(), name });
        let (maps, files, tensors) = Default::default();
        let mut weights = Weights { path, maps, files, tensors, stored, rules: rules.clone(), rounded: DType::F32 };
        for part in &checkpoint.files {
            weights.map(part, |name| rules.blocks(rules.uniform(name)))?;
        }
        for (other, name) in &rules.aliases {
            if let Some(entry) = weights.tensors.remove(other) {
                weights.tensors.entry(name.clone()).or_insert(entry);
            }
        }
        for [missing, other] in &rules.tied {
            if let Some(entry) = weights.tensors.get(other).cloned() {
                weights.tensors.entry(missing.clone()).or_insert(entry);
            }
        }
        for (i, module) in modules.iter().enumerate() {
            if modules[..i].contains(module) {
                continue;
            }
            for part in &files::checkpoint(&folder.join(module), false)?.files {
                weights.map(part, |name| vec![format!("{module}/{name}")])?;
            }
        }
        Ok(weights)
    }

    /// Maps a file and adds its tensors under the names returned by `uniform`: several are those of equal blocks of its
    /// rows.
    fn map(&mut self, part: &files::Part, uniform: impl Fn(&str) -> Vec<String>) -> Result<()> {
        let path = &part.path;
        let fault = |problem: String| Error::format(path, problem);
        let map = map_file(path)?;
        need_many(header::parsed(path, &map), &format!("the header of {}", path.display()))?;
        let stored = (part.read)(&map).map_err(|problem| fault(with_remedy(problem)))?;
        let names: HashSet<&str> = stored.iter().map(|tensor| tensor.name.as_str()).collect();
        let absent: Vec<&str> = part.promised.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
        if !absent.is_empty() {
            return Err(fault(format!("the index promises tensors that are not in it: {}", absent.join(", "))));
        }
        if self.maps.is_empty() && self.stored.is_none() {
            self.stored = first_float(&stored).map(|(tensor, name)| StatedType {
                file: path.to_owned(),
                key: format!("the type of {tensor}"),
                name,
            });
        }
        for tensor in stored {
            let names = uniform(&tensor.name);
            for (block, (name, stored)) in names.iter().zip(tensor.blocks(names.len()).map_err(fault)?).enumerate() {
                match self.tensors.entry(name.clone()) {
                    Place::Occupied(mut first) => first.get_mut().others.push(stored.name),
                    Place::Vacant(place) => {
                        place.insert(Entry { map: self.maps.len(), block, stored, others: Vec::new() });
                    }
                }
            }
        }
        self.maps.push(map);
        self.files.push(path.to_owned());
        Ok(())
    }

    /// The type of the checkpoint; `None` for one without tensors.
    pub fn stored_dtype(&self) -> Option<&StatedType> {
        self.stored.as_ref()
    }

    /// The file of the first module, or its folder if there are several.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self, entry: &Entry) -> &[u8] {
        &self.maps[entry.map][entry.stored.bytes.clone()]
    }

    /// Axes of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|entry| &entry.stored.shape[..])
    }

    /// The type of a tensor, as safetensors names it, and its bytes; `None` if it cannot be read.
    pub fn stored(&self, name: &str) -> Option<(String, &[u8])> {
        let entry = self.tensors.get(name).filter(|entry| entry.stored.unread.is_none())?;
        Some((format!("{:?}", entry.stored.dtype), self.bytes(entry)))
    }

    /// Names of the tensors as they are stored.
    pub fn stored_names(&self) -> impl Iterator<Item = &str> {
        self.tensors.values().map(|entry| entry.stored.name.as_str())
    }

    /// Whether there is a tensor whose name has this start.
    pub fn has(&self, start: &str) -> bool {
        self.tensors.range(start.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(start))
    }

    /// Compares the available tensors with the needed ones. Of those that are not needed, where `among` is true of the name
    /// (others belong to another part of the model), one is refused that would change the model's form; returns the stored
    /// names of the rest, which nothing reads.
    ///
    /// # Errors
    /// `Weights` listing every missing, misshapen and unexpected tensor; `ModelFormat` for needed tensors that cannot be
    /// read, or that two stored ones may be.
    pub fn check(&self, needed: &[Needed], among: impl Fn(&str) -> bool) -> Result<Vec<&str>> {
        let (mut problems, mut unread) = (Vec::new(), Vec::new());
        let mut expected: HashMap<&str, &[usize]> = HashMap::new();
        let mut read = HashSet::new();
        for Needed { name, shape, content } in needed {
            if expected.insert(name, shape).is_some() {
                continue;
            }
            let Some(entry) = self.tensors.get(name) else {
                problems.push(format!("missing {name} {shape:?}"));
                continue;
            };
            let stored = &entry.stored;
            read.insert((entry.map, stored.name.as_str()));
            match (&stored.unread, entry.others.first()) {
                (Some(header::Unread { reason, remedy }), _) => {
                    unread.push((format!("tensor {name} {reason}"), *remedy))
                }
                (None, Some(other)) => {
                    let both = format!("two tensors are called {name}: stored as {} and {other}", stored.name);
                    unread.push((both, "save the model anew, with one of them"));
                }
                (None, None) if stored.shape != *shape => {
                    problems.push(format!("{name} has shape {:?}, expected {shape:?}", stored.shape));
                }
                (None, None) => problems.extend(entry.fault(name, *content, self.bytes(entry))),
            }
        }
        if let Some((_, remedy)) = unread.last() {
            let remedy = *remedy;
            let same = unread.into_iter().filter(|(_, other)| *other == remedy).map(|(problem, _)| problem);
            return Err(Error::format(&self.path, format!("{}; {remedy}", listed(same.collect()).join("; "))));
        }
        let form = Form::of(needed, &self.rules);
        let mut skipped = Vec::new();
        let left = self.tensors.iter().filter(|(name, _)| among(name) && !expected.contains_key(name.as_str()));
        for (name, Entry { map, stored, others, .. }) in left {
            if form.includes(name, &stored.name) {
                problems.push(match stored.name == *name || name.contains('/') {
                    true => format!("unexpected {name} {:?}", stored.shape),
                    false => format!("unexpected {name} {:?} (stored as {})", stored.shape, stored.name),
                });
            } else if !read.contains(&(*map, stored.name.as_str())) {
                skipped.push(stored.name.as_str());
                skipped.extend(others.iter().map(String::as_str));
            }
        }
        if problems.is_empty() {
            return Ok(skipped);
        }
        Err(Error::Weights { path: self.path.clone(), problems: listed(problems) })
    }
}

/// As many faults as are listed, and the number of the others.
fn listed(mut problems: Vec<String>) -> Vec<String> {
    if problems.len() > MOST_PROBLEMS {
        let more = problems.len() - MOST_PROBLEMS;
        problems.truncate(MOST_PROBLEMS);
        problems.push(format!("and {more} more"));
    }
    problems
}

impl WeightSource for Weights {
    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let fault = |problem| Error::Weights { path: self.path.clone(), problems: vec![problem] };
        let entry = self.tensors.get(name).ok_or_else(|| fault(format!("missing {name}")))?;
        let encoding = entry.encoding(name).map_err(fault)?;
        let (shape, name) = (&entry.stored.shape[..], &entry.stored.name);
        let first_row = entry.block * shape.first().copied().unwrap_or_default();
        let origin = Origin { file: &self.files[entry.map], name, axes: shape, first_row };
        Ok(TensorView::new(encoding, self.rounded, shape, self.bytes(entry)).stored_in(origin))
    }
}

/// What a reader says of a file; damage is called truncated or corrupt.
fn with_remedy(problem: String) -> String {
    let damaged = ["truncated", "corrupt"].iter().any(|word| problem.contains(word));
    if damaged { problem + "; fetch the file anew" } else { problem }
}

fn map_file(path: &Path) -> Result<Mmap> {
    let fault = |problem: String| Error::format(path, problem);
    let unreadable = |e: std::io::Error| fault(format!("cannot be read: {e}"));
    // Checked before opening, since opening a pipe would block until its other end opens.
    let about = std::fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(fault("not a regular file".into()));
    }
    if about.len() == 0 {
        return Err(fault(with_remedy("truncated: the file is empty".into())));
    }
    let file = File::open(path).map_err(unreadable)?;
    // SAFETY: the map is only ever read, and every range read from it was checked against its length by its reader.
    // No other process may change or truncate the file while it is mapped; this cannot be enforced here and is left to
    // whoever installs models (package managers and the hub's cache replace files instead of writing into them). Reads
    // of changed bytes return other numbers; reads past a new, smaller end are terminated by the operating system with
    // a signal.
    unsafe { Mmap::map(&file) }.map_err(|e| match e.kind() {
        ErrorKind::OutOfMemory => refused(about.len().into(), &format!("a map of {}", path.display())),
        _ => fault(format!("cannot be mapped into memory: {e}")),
    })
}

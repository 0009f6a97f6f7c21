//! `#include`: beside the file that asks, in the shaders' folder, in its `include`, and then grilly's own files.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use super::glsl::Included;
use super::text;
use crate::backend::vulkan::generated::INCLUDES;

/// What stands before the names of grilly's own files.
const OWN: &str = "<grilly>/";
/// Files inside files. Each level holds its text and the parser's state.
const DEEPEST: usize = 64;
/// Files that one shader includes, each as often as it is read: files without guards that include each other twice have
/// two to the power of their number.
const MOST_FILES: usize = 4096;

/// The files of one compilation, whose number and size are bounded.
pub(super) struct Includes<'a> {
    directory: &'a Path,
    files: Cell<usize>,
    bytes: Cell<usize>,
}

impl<'a> Includes<'a> {
    /// Of a shader in the folder `directory`.
    pub(super) fn new(directory: &'a Path) -> Self {
        Includes { directory, files: Cell::new(0), bytes: Cell::new(0) }
    }

    /// The file that `#include "requested"` in the file called `from`, `depth` files deep, means.
    pub(super) fn resolve(&self, requested: &str, from: &str, depth: usize) -> Included {
        let circle = "does a file include itself, without `#ifndef NAME`, `#define NAME` and `#endif` around it?";
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} files deep; {circle}"));
        }
        self.files.set(self.files.get() + 1);
        if self.files.get() > MOST_FILES {
            return Err(format!("more than {MOST_FILES} files are included; {circle}"));
        }
        let (name, content) = self.find(requested, from)?;
        self.bytes.set(self.bytes.get() + content.len());
        match self.bytes.get() > text::LONGEST {
            true => Err(format!("the included files have more than {} bytes; {circle}", text::LONGEST)),
            false => Ok((name, content)),
        }
    }

    fn find(&self, requested: &str, from: &str) -> Included {
        let mut tried = Vec::new();
        // A file of grilly's own means its neighbours, whatever the user has.
        if !from.starts_with(OWN) {
            let beside = Path::new(from).parent().unwrap_or(Path::new("")).to_owned();
            for folder in [beside, self.directory.to_owned(), self.directory.join("include")] {
                let path: PathBuf = folder.join(requested);
                if path.exists() {
                    return text::read(&path).map(|text| (path.display().to_string(), text));
                }
                tried.push(path.display().to_string());
            }
        }
        match INCLUDES.iter().find(|(name, _)| *name == requested) {
            Some((name, text)) => Ok((format!("{OWN}{name}"), (*text).to_owned())),
            None => {
                let names: Vec<&str> = INCLUDES.iter().map(|(name, _)| *name).collect();
                Err(format!("looked for {}; grilly's own files are {}", tried.join(", "), names.join(", ")))
            }
        }
    }
}

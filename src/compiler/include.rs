//! Resolution of `#include`: beside the including file, in the shaders' folder, in its `include`, then grilly's own
//! files.

use std::cell::Cell;
use std::path::Path;

use super::glsl::Included;
use super::text;
use crate::backend::vulkan::generated::INCLUDES;

/// Prefix of the names of grilly's own files.
const OWN: &str = "<grilly>/";
/// Maximum include depth. Each level holds its text and the parser's state.
const DEEPEST: usize = 64;
/// Maximum number of inclusions in one shader, counting repeated ones: `n` files without guards that each include the
/// next twice amount to `2^n`.
const MOST_FILES: usize = 4096;

/// Name and text of each file of grilly's own that users' shaders include: those of no folder, which include none of one.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    // A part of one kernel has the kernel's name before its own.
    INCLUDES.iter().filter(|(name, _)| name.matches('.').count() == 1 && !name.contains('/')).copied()
}

/// What finds the files of one compilation, limited in number and size: the file that `#include "requested"` refers to in
/// the file `from`, which is at include depth `depth`. The shader is in the folder `directory`.
pub(super) fn resolver(directory: &Path) -> impl Fn(&str, &str, usize) -> Included {
    let (files, bytes) = (Cell::new(0), Cell::new(0));
    move |requested, from, depth| {
        let circle = "does a file include itself, without `#ifndef NAME`, `#define NAME` and `#endif` around it?";
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} files deep; {circle}"));
        }
        files.set(files.get() + 1);
        if files.get() > MOST_FILES {
            return Err(format!("more than {MOST_FILES} files are included; {circle}"));
        }
        let (name, content) = find(directory, requested, from)?;
        bytes.set(bytes.get() + content.len());
        match bytes.get() > text::LONGEST {
            true => Err(format!("the included files have more than {} bytes; {circle}", text::LONGEST)),
            false => Ok((name, content)),
        }
    }
}

fn find(directory: &Path, requested: &str, from: &str) -> Included {
    let mut tried = Vec::new();
    // grilly's own files include their own neighbours, whatever files the user has.
    if !from.starts_with(OWN) {
        let beside = Path::new(from).parent().unwrap_or(Path::new("")).to_owned();
        for folder in [beside, directory.to_owned(), directory.join("include")] {
            let path = folder.join(requested);
            if path.exists() {
                return text::read(&path).map(|text| (path.display().to_string(), text));
            }
            tried.push(path.display().to_string());
        }
    }
    // By its path in `shaders/include`, or by its name alone.
    let is_requested =
        |name: &str| name.strip_suffix(requested).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    match INCLUDES.iter().find(|(name, _)| is_requested(name)) {
        Some((name, text)) => Ok((format!("{OWN}{name}"), (*text).to_owned())),
        None => {
            let names: Vec<&str> = INCLUDES.iter().map(|(name, _)| *name).collect();
            Err(format!("looked for {}; grilly's own files are {}", tried.join(", "), names.join(", ")))
        }
    }
}

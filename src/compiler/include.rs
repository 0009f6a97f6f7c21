//! `#include`: beside the file that asks, in the shaders' folder, in its `include`, and then grilly's own files.

use std::path::{Path, PathBuf};

use super::glsl::Included;
use crate::backend::vulkan::generated::INCLUDES;

/// What stands before the names of grilly's own files.
const OWN: &str = "<grilly>/";

/// The file that `#include "requested"` in the file called `from` means.
pub(super) fn resolve(directory: &Path, requested: &str, from: &str) -> Included {
    let own = || INCLUDES.iter().find(|(name, _)| *name == requested);
    let mut tried = Vec::new();
    // A file of grilly's own means its neighbours, whatever the user has.
    if !from.starts_with(OWN) {
        let beside = Path::new(from).parent().unwrap_or(Path::new("")).to_owned();
        for folder in [beside, directory.to_owned(), directory.join("include")] {
            let path: PathBuf = folder.join(requested);
            match std::fs::read_to_string(&path) {
                Ok(text) if text.contains('\0') => return Err(format!("{} is no text", path.display())),
                Ok(text) => return Ok((path.display().to_string(), text)),
                Err(_) => tried.push(path.display().to_string()),
            }
        }
    }
    match own() {
        Some((name, text)) => Ok((format!("{OWN}{name}"), (*text).to_owned())),
        None => {
            let names: Vec<&str> = INCLUDES.iter().map(|(name, _)| *name).collect();
            Err(format!("looked for {}; grilly's own files are {}", tried.join(", "), names.join(", ")))
        }
    }
}

//! On-disk cache of compiled modules, keyed by a hash of all their inputs.
//!
//! A file is written under a unique name and then renamed, so several processes may share a folder; a truncated or
//! damaged file is compiled again. `words of the named module [1] | named module | module to run`

use std::path::PathBuf;

use super::ShaderCompilerConfig;
use crate::backend::vulkan::{cache_file, spirv_tools};
use crate::settings;

/// A compiled function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Compiled {
    /// The unoptimised module with all names.
    pub(super) named: Vec<u32>,
    /// The module that a device runs.
    pub(super) spirv: Vec<u32>,
}

/// The cache file for a preprocessed text; `None` if there is no cache folder.
pub(super) fn file(config: &ShaderCompilerConfig, preprocessed: &str) -> Option<PathBuf> {
    if !config.enable_caching {
        return None;
    }
    let folder = match &config.cache_directory {
        Some(folder) => folder.clone(),
        None => settings::cache_folder()?.join("shaders"),
    };
    // The text already contains the macros.
    let options = format!(
        "{} | {} | {:?} | {:?} | {} | {}\n",
        env!("CARGO_PKG_VERSION"),
        spirv_tools::version(),
        config.compile_options.target_env,
        config.optimization_level,
        config.debug_info,
        config.compile_options.fast_math
    );
    let hash = cache_file::content_hash([options.as_bytes(), preprocessed.as_bytes()].concat().as_slice());
    Some(folder.join(format!("{hash:032x}.bin")))
}

pub(super) fn read(file: &std::path::Path) -> Option<Compiled> {
    let bytes = cache_file::read(file)?;
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let (count, rest) = words.split_first()?;
    let (named, spirv) = rest.split_at_checked(*count as usize)?;
    // Validated whatever the origin of the file, since only valid modules may be passed to a driver.
    let valid = [named, spirv].into_iter().all(|module| spirv_tools::validate(module).is_ok());
    valid.then(|| Compiled { named: named.to_vec(), spirv: spirv.to_vec() })
}

pub(super) fn write(file: &std::path::Path, compiled: &Compiled) {
    let words = [&[compiled.named.len() as u32], &compiled.named[..], &compiled.spirv[..]].concat();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    if let Err(cause) = cache_file::write(file, &bytes) {
        log::debug!(target: "grilly", "shader cache {} not written: {cause}", file.display());
    }
}

//! All errors of grilly in one enum, whose variants carry the facts.
//!
//! Each variant maps to one Python exception class (see `python/src/error.rs`), so a new variant affects what Python
//! users catch.

use std::path::{Path, PathBuf};

/// The result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error, with the facts needed to correct it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model's name cannot be resolved.
    #[error("no model called {name:?}: {}", tried.join("; "))]
    ModelNotFound {
        /// The name as the caller gave it.
        name: String,
        /// Each location tried, with what was found there.
        tried: Vec<String>,
    },
    /// A file of a model is unusable (configuration, tokenizer, module list, weights' container).
    #[error("{}: {problem}", path.display())]
    ModelFormat {
        /// The file or folder.
        path: PathBuf,
        /// The fault and, if there is one, the remedy.
        problem: String,
    },
    /// The tensors of a model do not match its architecture; all faults are reported together.
    #[error("{}: {}", path.display(), problems.join("; "))]
    Weights {
        /// The weights file, or the folder of the shards.
        path: PathBuf,
        /// One entry per fault, e.g. `missing encoder.layer.0.output.dense.weight [384, 1536]`.
        problems: Vec<String>,
    },
    /// An argument has the right type but an invalid value.
    #[error("{0}")]
    InvalidArgument(String),
    /// An argument has the wrong type.
    #[error("{0}")]
    InvalidType(String),
    /// An index (token id, device number) is outside its range.
    #[error("{0}")]
    IndexOutOfRange(String),
    /// The request is valid, but this build, device or version does not support it.
    #[error("{what}: {reason}")]
    Unsupported {
        /// Operation, module, architecture or option.
        what: String,
        /// The reason, naming the limit or feature.
        reason: String,
    },
    /// No usable device of the requested kind, and falling back is not allowed.
    #[error("{0}")]
    DeviceUnavailable(String),
    /// A Vulkan call failed.
    #[error("{device}: {call} failed: {cause}")]
    Device {
        /// The device's name.
        device: String,
        /// The operation.
        call: String,
        /// The driver's error.
        cause: String,
    },
    /// The device was lost (reset, removed or hung); every later call on it fails.
    #[error("{device}: device lost during {during}")]
    DeviceLost {
        /// The device's name.
        device: String,
        /// The operation.
        during: String,
    },
    /// Memory for a buffer could not be allocated.
    #[error("{device}: out of memory {}", allocating(*bytes, purpose))]
    OutOfMemory {
        /// The device's name, or `cpu`.
        device: String,
        /// Size of the allocation that failed; 0 where the driver does not say.
        bytes: u64,
        /// The purpose of the allocation, or the call of the driver.
        purpose: String,
    },
    /// A shader's name does not match any file.
    #[error(
        "Shader '{name}' not found: looked for {}; give the path of a .glsl or .spv file, or name the folder with \
         ShaderCompilerConfig(shader_directory=...)", tried.join(", ")
    )]
    ShaderNotFound {
        /// The name as the caller gave it.
        name: String,
        /// Each path tried.
        tried: Vec<String>,
    },
    /// A folder of shaders cannot be read.
    #[error(
        "the shader folder {} cannot be read: {cause}; name another with ShaderCompilerConfig(shader_directory=...)",
        folder.display()
    )]
    ShaderFolder {
        /// The configured folder.
        folder: PathBuf,
        /// The system's error message.
        cause: String,
    },
    /// A shader file has no function with the requested name.
    #[error(
        "Function '{function}' not found in shader '{shader}', which has {}; declare it with a line \
         \"// function: {function}\" and build it under \"#ifdef ENTRY_{function}\"", known.join(", ")
    )]
    FunctionNotFound {
        /// The shader.
        shader: String,
        /// The requested name.
        function: String,
        /// The functions in the file.
        known: Vec<String>,
    },
    /// A shader does not compile, or does not have the required interface.
    #[error("Failed to compile shader '{shader}':\n{problem}\n{remedy}")]
    CompilationFailed {
        /// The shader.
        shader: String,
        /// The compiler's messages, each line beginning with `file:line`, or the differences from the interface.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// A device cannot run a shader.
    #[error("Failed to create pipeline for function '{shader}': {reason}; {remedy}")]
    PipelineCreationFailed {
        /// The shader.
        shader: String,
        /// The missing feature or limit, or the driver's error.
        reason: String,
        /// The remedy.
        remedy: String,
    },
    /// A kernel's configuration requires more shared memory than a workgroup has.
    #[error("flash attention, {config}: it needs {need} bytes of shared memory, the limit is {limit}; {}",
        match nearest { Some([q, kv]) => format!("{q} x {kv} fits"), None => "no smaller configuration fits".into() })]
    SharedMemory {
        /// The configuration.
        config: String,
        /// Bytes required.
        need: u64,
        /// Bytes available.
        limit: u64,
        /// Blocks of queries and keys of the nearest configuration that fits.
        nearest: Option<[u32; 2]>,
    },
    /// A checkpoint of a training run cannot be written or read.
    #[error("{}: {problem}", path.display())]
    Checkpoint {
        /// The file or folder.
        path: PathBuf,
        /// The fault and, if there is one, the remedy.
        problem: String,
    },
    /// A weight or a result contains NaN or infinity.
    #[error("{0}")]
    NotFinite(String),
    /// The object was closed, or belongs to the parent of a forked process.
    #[error("{0}")]
    Unusable(String),
    /// The caller requested a stop (Ctrl-C, or the interpreter is exiting).
    #[error("interrupted")]
    Interrupted,
}

/// The one of a few values that `name` names, for the setting or argument called `what`.
///
/// # Errors
/// `InvalidArgument` listing the names.
pub fn named<T, const N: usize>(what: &str, name: &str, known: [(&str, T); N]) -> Result<T> {
    let names = known.each_ref().map(|(name, _)| format!("{name:?}"));
    let found = known.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value);
    found.ok_or_else(|| {
        let (last, first) = names.split_last().expect("names");
        Error::InvalidArgument(format!("{what} is {name:?}, expected {} or {last}", first.join(", ")))
    })
}

/// A parser's message, shortened to 200 characters: it may quote a value of any length between the problem and its
/// position.
pub fn brief(fault: impl std::fmt::Display) -> String {
    const START: usize = 140;
    const END: usize = 57;
    let text = fault.to_string();
    let count = text.chars().count();
    if count <= START + 3 + END {
        return text;
    }
    text.chars().take(START).chain("...".chars()).chain(text.chars().skip(count - END)).collect()
}

impl Error {
    /// [`Error::Unsupported`].
    pub(crate) fn unsupported(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Unsupported { what: what.into(), reason: reason.into() }
    }

    /// [`Error::ModelFormat`] of a file or folder.
    pub(crate) fn format(path: &Path, problem: impl Into<String>) -> Self {
        Error::ModelFormat { path: path.to_owned(), problem: problem.into() }
    }

    /// Whether the batch may be rerun on the CPU, because the fault is the device's and not the input's.
    pub fn is_device_fault(&self) -> bool {
        matches!(self, Error::Device { .. } | Error::DeviceLost { .. } | Error::OutOfMemory { .. })
    }
}

/// What memory was needed for.
fn allocating(bytes: u64, purpose: &str) -> String {
    if bytes == 0 { format!("in {purpose}") } else { format!("allocating {bytes} bytes for {purpose}") }
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn what_a_parser_quotes_is_cut_and_the_place_stays() {
        let text = format!("invalid type: string \"{}\", expected u32 at line 7 column 3", "é".repeat(300_000));
        let short = brief(&text);
        assert_eq!(short.chars().count(), 200);
        assert!(short.starts_with("invalid type: string \"é"), "{short}");
        assert!(short.contains("é...é") && short.ends_with("expected u32 at line 7 column 3"), "{short}");
        for whole in ["", "expected value at line 1 column 1", &text.chars().take(200).collect::<String>()] {
            assert_eq!(brief(whole), whole);
        }
    }
}

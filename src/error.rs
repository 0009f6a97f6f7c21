//! Every way grilly can fail, as one enum whose variants carry facts.
//!
//! Each variant maps to one Python exception class (see `python/src/error.rs`), so a new variant is a decision
//! about what a Python user catches.

use std::path::PathBuf;

/// The result of every fallible function of the crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the facts a person needs to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model's name leads nowhere.
    #[error("no model called {name:?}: {}", tried.join("; "))]
    ModelNotFound {
        /// The name as the caller gave it.
        name: String,
        /// Each place that was looked at and what was found there.
        tried: Vec<String>,
    },
    /// A file of a model cannot be used as it is (configuration, tokenizer, module list, weights' container).
    #[error("{}: {problem}", path.display())]
    ModelFormat {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it and, where there is one, the remedy.
        problem: String,
    },
    /// The tensors of a model are not those its architecture asks for; every fault is named at once.
    #[error("{}: {}", path.display(), problems.join("; "))]
    Weights {
        /// The weights file, or the folder of the shards.
        path: PathBuf,
        /// One entry a fault, e.g. `missing encoder.layer.0.output.dense.weight [384, 1536]`.
        problems: Vec<String>,
    },
    /// An argument has the right type and an impossible value.
    #[error("{0}")]
    InvalidArgument(String),
    /// An argument has the wrong type.
    #[error("{0}")]
    InvalidType(String),
    /// An index (token id, device number) is outside its range.
    #[error("{0}")]
    IndexOutOfRange(String),
    /// The thing asked for is well formed, and this build, device or version does not do it.
    #[error("{what}: {reason}")]
    Unsupported {
        /// Operation, module, architecture or option.
        what: String,
        /// Why not, naming the limit or feature.
        reason: String,
    },
    /// No usable device of the kind asked for, and falling back is not allowed.
    #[error("{0}")]
    DeviceUnavailable(String),
    /// A Vulkan call failed.
    #[error("{device}: {call} failed: {cause}")]
    Device {
        /// The device's name.
        device: String,
        /// What was being done.
        call: String,
        /// The driver's answer.
        cause: String,
    },
    /// The device was lost (reset, removed or hung) and every later call on it fails.
    #[error("{device}: device lost during {during}")]
    DeviceLost {
        /// The device's name.
        device: String,
        /// What was being done.
        during: String,
    },
    /// Memory for a buffer could not be had.
    #[error("{device}: out of memory allocating {bytes} bytes for {purpose}")]
    OutOfMemory {
        /// The device's name, or `cpu`.
        device: String,
        /// Size of the allocation that failed.
        bytes: u64,
        /// What it was for.
        purpose: String,
    },
    /// A shader's name leads to no file.
    #[error(
        "shader {name:?} not found: looked for {}; give the path of a .glsl or .spv file, or name the folder with \
         ShaderCompilerConfig(shader_directory=...)", tried.join(", ")
    )]
    ShaderNotFound {
        /// The name as the caller gave it.
        name: String,
        /// Each file that was looked for.
        tried: Vec<String>,
    },
    /// A folder of shaders cannot be read.
    #[error(
        "the shader folder {} cannot be read: {cause}; name another with ShaderCompilerConfig(shader_directory=...)",
        folder.display()
    )]
    ShaderFolder {
        /// The folder as it was configured.
        folder: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// A shader file has no function of the name.
    #[error(
        "function {function:?} not found in shader {shader:?}, which has {}; declare it with a line \
         \"// function: {function}\" and build it under \"#ifdef ENTRY_{function}\"", known.join(", ")
    )]
    FunctionNotFound {
        /// The shader.
        shader: String,
        /// The name that was asked for.
        function: String,
        /// The functions it has.
        known: Vec<String>,
    },
    /// A shader does not compile, or is not what it must be.
    #[error("shader {shader:?} does not compile:\n{problem}\n{remedy}")]
    CompilationFailed {
        /// The shader.
        shader: String,
        /// The compiler's text, each line beginning with `file:line`, or what differs from the interface.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A device cannot run a shader.
    #[error("no pipeline for shader {shader:?}: {reason}; {remedy}")]
    PipelineCreationFailed {
        /// The shader.
        shader: String,
        /// The feature or limit that is missing, or the driver's answer.
        reason: String,
        /// What to do about it.
        remedy: String,
    },
    /// A kernel's configuration needs more shared memory than a workgroup has.
    #[error("flash attention, {config}: it needs {need} bytes of shared memory, the limit is {limit}; {}",
        match nearest { Some([q, kv]) => format!("{q} x {kv} fits"), None => "no smaller configuration fits".into() })]
    SharedMemory {
        /// The configuration.
        config: String,
        /// Bytes it needs.
        need: u64,
        /// Bytes there are.
        limit: u64,
        /// Queries and keys of the nearest that fits.
        nearest: Option<[u32; 2]>,
    },
    /// A result holds NaN or infinity.
    #[error("{0}")]
    NotFinite(String),
    /// The object was closed, or belongs to the process this one was forked from.
    #[error("{0}")]
    Unusable(String),
    /// The caller asked to stop (Ctrl-C, or the interpreter is exiting).
    #[error("interrupted")]
    Interrupted,
}

/// What a parser says, at most 200 characters of it: it may quote a value of any length, between what is wrong with it and
/// where.
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
    /// Whether the batch may be run again on the CPU: the fault is the device's, not the input's.
    pub fn is_device_fault(&self) -> bool {
        matches!(self, Error::Device { .. } | Error::DeviceLost { .. } | Error::OutOfMemory { .. })
    }
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

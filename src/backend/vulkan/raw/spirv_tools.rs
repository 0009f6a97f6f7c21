//! SPIRV-Tools, as bundled in libshaderc: validation and optimisation without external programs.
//!
//! Used by the build script for grilly's own shaders, and by the run-time compiler for users' shaders.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

/// `spv_target_env` of Vulkan 1.3.
const SPV_ENV_VULKAN_1_3: c_int = 25;

/// `spv_position_t` followed by the message, as in `spv_diagnostic_t`.
#[repr(C)]
struct Diagnostic {
    line: usize,
    column: usize,
    index: usize,
    error: *const c_char,
    is_text_source: bool,
}

/// `spv_binary_t`.
#[repr(C)]
struct Binary {
    code: *const u32,
    words: usize,
}

unsafe extern "C" {
    fn spvContextCreate(environment: c_int) -> *mut c_void;
    fn spvContextDestroy(context: *mut c_void);
    fn spvValidateBinary(
        context: *const c_void,
        words: *const u32,
        count: usize,
        diagnostic: *mut *mut Diagnostic,
    ) -> c_int;
    fn spvDiagnosticDestroy(diagnostic: *mut Diagnostic);
    fn spvSoftwareVersionString() -> *const c_char;
    fn spvOptimizerCreate(environment: c_int) -> *mut c_void;
    fn spvOptimizerDestroy(optimizer: *mut c_void);
    fn spvOptimizerRegisterPerformancePasses(optimizer: *mut c_void);
    fn spvOptimizerRegisterSizePasses(optimizer: *mut c_void);
    fn spvOptimizerRegisterPassFromFlag(optimizer: *mut c_void, flag: *const c_char) -> bool;
    fn spvOptimizerOptionsCreate() -> *mut c_void;
    fn spvOptimizerOptionsDestroy(options: *mut c_void);
    fn spvOptimizerRun(
        optimizer: *mut c_void,
        words: *const u32,
        count: usize,
        binary: *mut *mut Binary,
        options: *const c_void,
    ) -> c_int;
    fn spvBinaryDestroy(binary: *mut Binary);
}

/// Checks a module against the rules of Vulkan 1.3.
///
/// # Errors
/// The validator's message.
pub fn validate(words: &[u32]) -> Result<(), String> {
    // SAFETY: the signatures are those of libspirv.h, which libshaderc_combined includes; the context and the
    // diagnostic are destroyed exactly once, after their last use in this function; `words` outlives the call.
    unsafe {
        let context = spvContextCreate(SPV_ENV_VULKAN_1_3);
        if context.is_null() {
            return Err("SPIRV-Tools has no environment for Vulkan 1.3".into());
        }
        let mut diagnostic: *mut Diagnostic = std::ptr::null_mut();
        let status = spvValidateBinary(context, words.as_ptr(), words.len(), &mut diagnostic);
        let message = match diagnostic.as_ref() {
            Some(found) if !found.error.is_null() => {
                format!("invalid SPIR-V at word {}: {}", found.index, CStr::from_ptr(found.error).to_string_lossy())
            }
            _ => format!("invalid SPIR-V: status {status}"),
        };
        spvDiagnosticDestroy(diagnostic);
        spvContextDestroy(context);
        if status == 0 { Ok(()) } else { Err(message.replace('\n', " ")) }
    }
}

/// The goal of an optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(dead_code)] // the build script leaves it to shaderc
pub enum OptimizationLevel {
    /// No optimisation.
    None,
    /// Fewer words.
    Size,
    /// Fewer instructions executed.
    Full,
}

/// Optimises a valid module; `names` preserves debug information, which is otherwise removed.
///
/// # Errors
/// When the optimiser rejects the module.
#[allow(dead_code)] // the build script leaves it to shaderc
pub fn optimise(words: &[u32], level: OptimizationLevel, names: bool) -> Result<Vec<u32>, String> {
    // SAFETY: `run` passes an optimiser that it has created.
    run(words, |optimizer| unsafe {
        let stripped = names || spvOptimizerRegisterPassFromFlag(optimizer, c"--strip-debug".as_ptr());
        match level {
            OptimizationLevel::Full => spvOptimizerRegisterPerformancePasses(optimizer),
            OptimizationLevel::Size => spvOptimizerRegisterSizePasses(optimizer),
            OptimizationLevel::None => {}
        }
        stripped
    })
}

/// Runs passes, named as the options of spirv-opt, on a module.
///
/// # Errors
/// When one is unknown, or the optimiser rejects the module.
#[allow(dead_code)] // the build script leaves it to shaderc
pub fn passes(words: &[u32], names: &[&CStr]) -> Result<Vec<u32>, String> {
    // SAFETY: `run` passes an optimiser that it has created; a name outlives the call, which copies it.
    run(words, |optimizer| unsafe {
        names.iter().all(|name| spvOptimizerRegisterPassFromFlag(optimizer, name.as_ptr()))
    })
}

/// Runs the passes that `register` adds to an optimiser, and says that it could add.
#[allow(dead_code)] // the build script leaves it to shaderc
fn run(words: &[u32], register: impl FnOnce(*mut c_void) -> bool) -> Result<Vec<u32>, String> {
    // SAFETY: the signatures are those of libspirv.h; everything created here is destroyed exactly once, after its last
    // use; `words` outlives the call, and the result is copied before it is freed.
    unsafe {
        let optimizer = spvOptimizerCreate(SPV_ENV_VULKAN_1_3);
        let options = spvOptimizerOptionsCreate();
        if optimizer.is_null() || options.is_null() {
            return Err("SPIRV-Tools has no optimiser for Vulkan 1.3".into());
        }
        let registered = register(optimizer);
        let mut binary: *mut Binary = std::ptr::null_mut();
        let status = spvOptimizerRun(optimizer, words.as_ptr(), words.len(), &mut binary, options);
        let result = match binary.as_ref() {
            Some(found) if status == 0 && registered => {
                Ok(std::slice::from_raw_parts(found.code, found.words).to_vec())
            }
            _ => Err(format!("the optimiser failed with status {status}")),
        };
        spvBinaryDestroy(binary);
        spvOptimizerOptionsDestroy(options);
        spvOptimizerDestroy(optimizer);
        result
    }
}

/// Name and version of the library.
#[allow(dead_code)] // the build script recompiles every time
pub fn version() -> String {
    // SAFETY: a static, terminated string.
    unsafe { CStr::from_ptr(spvSoftwareVersionString()) }.to_string_lossy().into_owned()
}

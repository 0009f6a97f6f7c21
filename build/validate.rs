//! Validates modules with SPIRV-Tools, which libshaderc carries inside: no external spirv-val is needed.
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
}

/// Checks a module against the rules of Vulkan 1.3.
pub fn validate(words: &[u32]) -> Result<(), String> {
    // SAFETY: the signatures are those of libspirv.h, which libshaderc_combined carries; the context and the
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

//! PTX from CUDA C++, by NVIDIA's compiler NVRTC, a library that is loaded when it is first needed.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use crate::{Error, Result};

/// Names of the library, newest first; one that the process has loaded is found by its name, wherever it is.
const NAMES: [&str; 5] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
/// The oldest that every supported version of the library compiles for, Turing, and the oldest with the matrix instructions.
const ARCHITECTURES: [&CStr; 2] = [c"--gpu-architecture=compute_75", c"--gpu-architecture=compute_80"];
/// What a text for the second has.
const MATRICES: &str = "__CUDA_ARCH__ < 800";
const ABSENT: &str = "NVRTC is not there: install it (pip install nvidia-cuda-nvrtc-cu12, or NVIDIA's CUDA toolkit), or \
                      take the target \"cuda\", whose code `nvcc -ptx` compiles";

type NvrtcProgram = *mut c_void;
type Measure = unsafe extern "C" fn(NvrtcProgram, *mut usize) -> c_int;
type Fetch = unsafe extern "C" fn(NvrtcProgram, *mut c_char) -> c_int;

/// The functions of the library, which stays loaded.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut NvrtcProgram,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(NvrtcProgram, c_int, *const *const c_char) -> c_int,
    log: (Measure, Fetch),
    ptx: (Measure, Fetch),
    destroy: unsafe extern "C" fn(*mut NvrtcProgram) -> c_int,
}

impl Nvrtc {
    fn load() -> Option<Nvrtc> {
        // SAFETY: loading NVRTC runs no code that relies on this process, and the library is never unloaded.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok())?;
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of nvrtc.h, which have not changed since version 7.
        unsafe {
            Some(Nvrtc {
                create: *library.get(b"nvrtcCreateProgram").ok()?,
                compile: *library.get(b"nvrtcCompileProgram").ok()?,
                log: (*library.get(b"nvrtcGetProgramLogSize").ok()?, *library.get(b"nvrtcGetProgramLog").ok()?),
                ptx: (*library.get(b"nvrtcGetPTXSize").ok()?, *library.get(b"nvrtcGetPTX").ok()?),
                destroy: *library.get(b"nvrtcDestroyProgram").ok()?,
            })
        }
    }

    fn compile(&self, text: &CString) -> Result<Vec<u8>, String> {
        let mut program: NvrtcProgram = ptr::null_mut();
        let matrices = text.to_bytes().windows(MATRICES.len()).any(|part| part == MATRICES.as_bytes());
        let options = [ARCHITECTURES[usize::from(matrices)], c"--std=c++17"].map(CStr::as_ptr);
        // SAFETY: the strings end with zero and outlive the calls; the program is destroyed once, after its last use.
        unsafe {
            let none = ptr::null();
            let status = (self.create)(&mut program, text.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none);
            if status != 0 {
                return Err(format!("NVRTC makes no program: status {status}"));
            }
            let status = (self.compile)(program, options.len() as c_int, options.as_ptr());
            let made = fetched(program, if status == 0 { self.ptx } else { self.log });
            (self.destroy)(&mut program);
            if status == 0 { Ok(made) } else { Err(String::from_utf8_lossy(&made).into_owned()) }
        }
    }
}

/// A text of a program, without the zero at its end.
///
/// # Safety
/// The program exists, and both functions belong to one text of it.
unsafe fn fetched(program: NvrtcProgram, (measure, fetch): (Measure, Fetch)) -> Vec<u8> {
    let mut size = 0;
    // SAFETY: the memory has the size that the library asked for.
    unsafe {
        measure(program, &mut size);
        let mut text = vec![0u8; size];
        fetch(program, text.as_mut_ptr().cast());
        text.pop();
        text
    }
}

/// The PTX of CUDA C++, for GPUs of compute capability 7.5 and later, on matrix cores 8.0.
///
/// # Errors
/// `Unsupported` where NVRTC is not installed, with the package to install; `CompilationFailed` with its messages.
///
/// ```
/// match grilly::export::ptx("extern \"C\" __global__ void one(float* y) { y[0] = 1.0f; }") {
///     Ok(code) => assert!(String::from_utf8(code).unwrap().contains(".entry one(")),
///     Err(error) => assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc-cu12")),
/// }
/// ```
pub fn ptx(cuda: &str) -> Result<Vec<u8>> {
    static LIBRARY: OnceLock<Option<Nvrtc>> = OnceLock::new();
    let library = LIBRARY.get_or_init(Nvrtc::load).as_ref().ok_or_else(|| Error::unsupported("PTX", ABSENT))?;
    let text = CString::new(cuda).map_err(|_| Error::InvalidArgument("the CUDA C++ contains a zero byte".into()))?;
    library.compile(&text).map_err(|problem| Error::CompilationFailed {
        shader: "kernel.cu".into(),
        problem,
        remedy: "correct the CUDA C++ at these lines".into(),
    })
}

//! Reading of shader files, and limits on their size.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum bytes of a shader, including included files and expanded macros.
pub(super) const LONGEST: usize = 1 << 20;
/// Base size of the compiler's stack, to which some bytes per byte of text are added: it recurses over expressions such
/// as `a+a+...`, using about 400 bytes per term, over conditions (`#if ((...`), and over macros in macro arguments.
const STACK: usize = 8 << 20;
const STACK_PER_BYTE: usize = 512;

/// Reads a whole UTF-8 file.
///
/// # Errors
/// The problem, for a message that names the file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let fault = |what: &str| format!("{} {what}", path.display());
    // Checked before opening: opening a pipe would block until its other end opens, and reading a device may never end.
    if !path.is_file() {
        return Err(fault("is not a regular file"));
    }
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST as u64 + 1).read_to_string(&mut text));
    read.map_err(|cause| fault(&format!("cannot be read: {cause}")))?;
    if text.len() > LONGEST {
        return Err(fault(&format!("has more than {LONGEST} bytes, which is the most that is compiled")));
    }
    match text.contains('\0') {
        true => Err(fault("is not text: it contains a zero byte")),
        false => Ok(text),
    }
}

/// Runs the compiler on a thread whose stack is large enough for `bytes` of text.
///
/// # Errors
/// If there is no memory for the stack.
pub(super) fn on_deep_stack<T: Send>(
    bytes: usize,
    run: impl FnOnce() -> Result<T, String> + Send,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("grilly-compiler".into()).stack_size(STACK + STACK_PER_BYTE * bytes);
        let running =
            thread.spawn_scoped(scope, run).map_err(|cause| format!("no thread for the compiler: {cause}"))?;
        running.join().unwrap_or_else(|_| Err("the compiler panicked".into()))
    })
}

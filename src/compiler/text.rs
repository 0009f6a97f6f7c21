//! The text of a shader's file, and how much of it the compiler takes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of a shader with what it includes and what its macros stand for.
pub(super) const LONGEST: usize = 1 << 20;
/// Stack of the compiler, and how much more for each byte of text: it walks an expression such as `a+a+...` by recursion, some
/// 400 bytes a term, and so do conditions (`#if ((...`) and macros in the arguments of macros.
const STACK: usize = 8 << 20;
const STACK_PER_BYTE: usize = 512;

/// Reads a whole file of UTF-8.
///
/// # Errors
/// What is wrong with it, for a message that names it.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let fault = |what: &str| format!("{} {what}", path.display());
    // Asked before opening: opening a pipe would wait for its other end, and a device may have no end.
    if !path.is_file() {
        return Err(fault("is not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|cause| fault(&format!("cannot be read: {cause}")))?;
    file.take(LONGEST as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|cause| fault(&format!("cannot be read: {cause}")))?;
    if text.len() > LONGEST {
        return Err(fault(&format!("has more than {LONGEST} bytes, which is the most that is compiled")));
    }
    match text.contains('\0') {
        true => Err(fault("is no text: it holds a zero byte")),
        false => Ok(text),
    }
}

/// Runs the compiler on a stack that is deep enough for `bytes` of text.
///
/// # Errors
/// When there is no memory for that stack.
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

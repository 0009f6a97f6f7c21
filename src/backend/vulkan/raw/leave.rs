//! The end of a process whose device is still at work.

/// Ends the process as soon as it calls `exit`, with its status and with C's streams flushed, before the handlers of other
/// libraries run.
///
/// A driver's own threads go on while those handlers run, and what they use is taken down under them: lavapipe's are in
/// LLVM, and end with signal 11.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::backend::vulkan) fn skip_exit_handlers() {
    use std::ffi::{c_int, c_uint, c_void};
    use std::ptr::null_mut;

    unsafe extern "C" {
        fn on_exit(handler: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
        fn fflush(stream: *mut c_void) -> c_int;
        fn _exit(status: c_int) -> !;
        fn setpriority(which: c_int, who: c_uint, nice: c_int) -> c_int;
    }
    const PRIO_PROCESS: c_int = 0;

    extern "C" fn leave(status: c_int, _: *mut c_void) {
        // The thread that dies last frees the memory. Where that is one that a driver has made nice, a busy machine lets it
        // wait for seconds. Without the right to do this, the end is as late.
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            // SAFETY: a call that takes numbers.
            unsafe { setpriority(PRIO_PROCESS, thread, 0) };
        }
        // SAFETY: null means every stream; `exit` would flush them here too.
        unsafe {
            fflush(null_mut());
            _exit(status)
        }
    }

    // SAFETY: the handler lives as long as the program and reads no argument. The last one registered runs first.
    unsafe { on_exit(leave, null_mut()) };
}

/// There is no such handler on this system.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(in crate::backend::vulkan) fn skip_exit_handlers() {}

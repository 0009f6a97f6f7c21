//! The end of a process whose device is still busy.

/// Ends the process as soon as it calls `exit`, with its exit status and with C's streams flushed, before the exit
/// handlers of other libraries run.
///
/// A driver's own threads continue while those handlers run and destroy what the threads use: those of lavapipe are in
/// LLVM, and crash with signal 11.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn skip_exit_handlers() {
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
        // The thread that dies last frees the memory. If a driver has lowered the priority of that thread, it can wait
        // for seconds on a busy machine. Without the permission for this call, the process ends later.
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
            // SAFETY: the call takes only integers.
            unsafe { setpriority(PRIO_PROCESS, thread, 0) };
        }
        // SAFETY: null means every stream, which `exit` would also flush.
        unsafe {
            fflush(null_mut());
            _exit(status)
        }
    }

    // SAFETY: the handler lives as long as the program and reads no argument. The handler registered last runs first.
    unsafe { on_exit(leave, null_mut()) };
}

/// This system has no such handler.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn skip_exit_handlers() {}

//! Counters of this process' work on its devices, returned by `grilly.stats()`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The live counters; add with [`AtomicU64::fetch_add`].
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }

        /// The counters at one point in time.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Reads every counter.
            pub fn snapshot(&self) -> Snapshot { Snapshot { $($name: self.$name.load(Relaxed),)* } }
            /// Sets every counter to zero except `bytes_held` and `bytes_retained`, which are current amounts.
            pub fn reset(&self) {
                $(if !matches!(stringify!($name), "bytes_held" | "bytes_retained") { self.$name.store(0, Relaxed); })*
            }
        }

        impl Snapshot {
            /// Name and value of each counter, in order.
            pub fn entries(&self) -> Vec<(&'static str, u64)> { vec![$((stringify!($name), self.$name),)*] }
        }

        /// The counters of this process.
        pub static COUNTERS: Counters = Counters { $($name: AtomicU64::new(0),)* };
    };
}

counters! {
    /// Vulkan instances created.
    instances,
    /// Logical Vulkan devices created.
    devices,
    /// Compute dispatches executed on Vulkan devices.
    dispatches,
    /// Queue submissions, weight uploads included.
    submits,
    /// Waits of the host for a device.
    waits,
    /// Batches run on Vulkan devices.
    batches_vulkan,
    /// Batches run on the CPU backend.
    batches_cpu,
    /// Ops on arrays run on the CPU backend.
    ops_cpu,
    /// Floating-point operations of the batches and ops started on Vulkan devices, in thousands; 64 bits suffice for
    /// years.
    kiloflops_vulkan,
    /// The same on the CPU backend.
    kiloflops_cpu,
    /// Bytes of weights written to devices.
    bytes_weights,
    /// Bytes of inputs written to devices (ids, positions, lengths, dispatch sizes).
    bytes_up,
    /// Bytes of results read back from devices.
    bytes_down,
    /// Allocations of memory by drivers, blocks that many buffers share included.
    allocations,
    /// Bytes of device memory that arrays, models and the work on them hold.
    bytes_held,
    /// Bytes of device memory that hold nothing and are retained for later results.
    bytes_retained,
    /// Number of times that work meant for a device ran on the CPU instead.
    fallbacks,
}

//! Work on several threads of its own, which hold no lock of rayon's pool.

use std::sync::Mutex;
use std::thread::{self, Builder};

use super::lock;

/// Calls `work` for every item, on as many threads as the processor has cores, `most` at most, in no defined order.
pub(super) fn for_each<T: Send>(items: impl Iterator<Item = T> + Send, most: usize, work: impl Fn(T) + Sync) {
    let threads = match most {
        0 | 1 => 1,
        most => thread::available_parallelism().map_or(1, |n| n.get()).min(most),
    };
    let rest = Mutex::new(items);
    let next = || lock(&rest).next();
    let share = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that the system refuses leaves its share to the others.
            let _ = Builder::new().name("grilly-load".into()).spawn_scoped(scope, share);
        }
        share();
    });
}

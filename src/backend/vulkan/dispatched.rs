//! Which pipelines this process has dispatched, and how often; tests verify from it which variants ran.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rspirv::spirv::Capability;

use super::lock;
use super::{Feature, Variant, generated, words};

/// By the variant's name and the values of its specialization constants.
type Counts = BTreeMap<(&'static str, Vec<u32>), Arc<AtomicU64>>;

static COUNTS: Mutex<Counts> = Mutex::new(BTreeMap::new());

/// The count of a variant with these constants, shared by all devices.
pub(super) fn count(variant: &Variant, constants: &[u32]) -> Arc<AtomicU64> {
    lock(&COUNTS).entry((variant.name, constants.to_vec())).or_default().clone()
}

/// Each variant with the constants of its dispatches, and their number.
pub fn dispatched() -> Vec<(&'static str, Vec<u32>, u64)> {
    let counts = lock(&COUNTS);
    let count = |((name, constants), count): (&(&'static str, Vec<u32>), &Arc<AtomicU64>)| {
        (*name, constants.clone(), count.load(Relaxed))
    };
    counts.iter().map(count).filter(|(_, _, count)| *count > 0).collect()
}

/// A variant that the build made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Built {
    /// Its full name.
    pub name: &'static str,
    /// The features a device must have for it.
    pub needs: &'static [Feature],
    /// Whether its invocations read the subgroup size.
    pub subgroups: bool,
}

/// Every variant that the build made.
pub fn built() -> Vec<Built> {
    let variants = generated::ALL.iter().flat_map(|kernel| kernel.variants);
    let subgroups = |v: &'static Variant| words::declares(&v.spirv, Capability::GroupNonUniform);
    variants.map(|v| Built { name: v.name, needs: v.needs, subgroups: subgroups(v) }).collect()
}

//! The limits of a batch on a device.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::kernel::{Dispatch, Extent};
use super::{Capabilities, DeviceType};
use crate::backend::BatchLimits;
use crate::graph::Plan;
use crate::ops::{Counts, Dim};

/// Enough tokens to keep any GPU busy; more only cost memory.
const MOST_TOKENS: usize = 32 << 10;

/// Assumed minimum tokens per text when memory is divided.
const SHORT_TEXT: usize = 4;

/// Bytes of memory of discrete GPUs that are fast enough for a whole step of training at a time, and of those of data centres,
/// for batches as large.
const LARGE: u64 = 10 << 30;
const LARGEST: u64 = 32 << 30;

/// Invocations of a workgroup on the smallest integrated GPUs: no more than every device has.
const LEAST_INVOCATIONS: u32 = 256;

/// Bytes of memory of the smallest discrete GPUs.
const SMALL: u64 = 4 << 30;

/// Flops per submission. A GPU shared with the display must finish before its watchdog resets it, which on Windows waits two
/// seconds; a software rasteriser (about 11 GFLOP/s) must finish soon enough to react to Ctrl-C.
pub(super) fn flops_per_submission(capabilities: &Capabilities) -> u64 {
    most_flops(capabilities, LARGEST)
}

/// As [`flops_per_submission`], for work of 16 TFLOP on discrete GPUs of so much memory.
fn most_flops(capabilities: &Capabilities, large: u64) -> u64 {
    match capabilities.device_type {
        DeviceType::Discrete if capabilities.memory >= large => 16_000_000_000_000,
        // Of 1,900 of a GeForce GTX 1050.
        DeviceType::Discrete if capabilities.memory <= SMALL => 500_000_000_000,
        DeviceType::Discrete => 2_000_000_000_000,
        // Kernels reach a third of the GFLOP/s that a device has at most, by the count of tests/profiles: of 123 of a Raspberry Pi 5.
        DeviceType::Integrated if capabilities.invocations <= LEAST_INVOCATIONS => 20_000_000_000,
        DeviceType::Integrated | DeviceType::Virtual | DeviceType::Other => 200_000_000_000,
        DeviceType::Software => 7_000_000_000,
    }
}

/// Flops per submission of work on arrays, such as a training step, until a test sets them.
static MOST_FLOPS: AtomicU64 = AtomicU64::new(0);

/// Splits work on arrays into submissions of about so many flops; 0 for the device's own limit. For tests.
pub fn split_submissions(flops: u64) {
    MOST_FLOPS.store(flops, Relaxed);
}

/// As [`flops_per_submission`], for work on arrays. A step of 86 million parameters on 32 x 512 tokens has 9 TFLOP, 12 where
/// activations are computed twice, and is one submission on a discrete GPU whose memory is large.
pub(super) fn flops_per_list(capabilities: &Capabilities) -> u64 {
    match MOST_FLOPS.load(Relaxed) {
        0 => most_flops(capabilities, LARGE),
        set => set,
    }
}

/// The limits of a plan whose batches may use `memory` bytes.
pub(super) fn limits(plan: &Plan, dispatches: &[Dispatch], capabilities: &Capabilities, memory: u64) -> BatchLimits {
    let in_flight = if capabilities.device_type == DeviceType::Software { 2 } else { 3 };
    let row = widest_token_row(plan) as u64;
    let by_range = capabilities.storage_buffer_range / row;
    let bytes = bytes_per_token(plan);
    let most = by_range.min(most_groups(dispatches, capabilities)).min(u32::MAX.into());
    let longest_text = most.min(memory / bytes).max(1);
    let by_memory = memory / (bytes * in_flight as u64);
    let by_work = flops_per_submission(capabilities) / flops_per_token(plan);
    let tokens = longest_text.min(by_memory).min(by_work).min(MOST_TOKENS as u64).max(1);
    BatchLimits { tokens: tokens as usize, longest_text: longest_text as usize, in_flight }
}

/// Bytes per row of the widest tensor, input or computed, that has one row per token.
fn widest_token_row(plan: &Plan) -> usize {
    let given = plan.graph.inputs.iter().map(|id| plan.graph.value(*id));
    let rows = given.filter(|value| value.shape.rows() == Dim::Tokens);
    rows.map(|value| value.dtype.bytes(value.shape.columns())).fold(plan.widest_token_row().max(4), usize::max)
}

/// Bytes that a batch of these sizes needs: inputs, computed values and a copy of every output.
pub(super) fn batch_bytes(plan: &Plan, counts: Counts) -> usize {
    let given_and_taken = plan.graph.inputs.iter().chain(&plan.graph.outputs);
    plan.buffer_bytes(counts) + given_and_taken.map(|id| plan.graph.value(*id).bytes(counts)).sum::<usize>()
}

fn bytes_per_token(plan: &Plan) -> u64 {
    let tokens = 4096;
    // A second sequence is as long as the first.
    let counts = Counts { others: [tokens; Counts::OTHERS], ..Counts::new(tokens, tokens / SHORT_TEXT) };
    (batch_bytes(plan, counts).div_ceil(tokens) as u64).max(1)
}

/// Assumes texts of 128 tokens; the additional cost of attention in longer ones is ignored.
fn flops_per_token(plan: &Plan) -> u64 {
    let counts = Counts { others: [1024; Counts::OTHERS], ..Counts::new(1024, 8) };
    plan.flops(counts).div_ceil(1024).max(1)
}

/// The number of tokens at which some dispatch would exceed the device's workgroup count.
fn most_groups(dispatches: &[Dispatch], capabilities: &Capabilities) -> u64 {
    let extents = dispatches.iter().flat_map(|d| d.grid.iter().zip(capabilities.workgroup_count));
    let most = extents.filter_map(|(extent, most)| match extent {
        Extent::Tiles { dim: Dim::Tokens, per } => Some(u64::from(most) * u64::from(*per)),
        Extent::Groups { dim: Dim::Tokens, each, more, per } => {
            Some((u64::from(most) * u64::from(*per)).saturating_sub((*more).into()) / u64::from((*each).max(1)))
        }
        _ => None,
    });
    most.min().unwrap_or(u64::MAX)
}

/// The sizes to allocate for a batch of `counts`: powers of two up to the limit, so that reallocation soon stops.
pub(super) fn capacity(counts: Counts, limits: BatchLimits) -> Counts {
    let round = |n: usize, least: usize| n.max(least).next_power_of_two();
    // A batch over the token budget is one long text, which is rare: it gets exactly the room it needs.
    let most = if counts.tokens <= limits.tokens { limits.tokens } else { counts.tokens };
    let others = counts.others.map(|n| if n == 0 { 0 } else { round(n, 128) });
    Counts { others, ..Counts::new(round(counts.tokens, 128).min(most), round(counts.texts, 16)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;
    use crate::ops::{Linear, Shape};

    fn plan(columns: usize) -> Plan {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F32);
        let w = graph.weight(vec!["w".into()], Shape::fixed(&[columns, columns]));
        let y = graph.node("product", Linear::default(), &[x, w]).unwrap();
        graph.outputs = vec![y];
        Plan::new(graph)
    }

    #[test]
    fn limits_follow_range_memory_and_work() {
        let plan = plan(1024);
        let mut capabilities = Capabilities::floor();
        let wide = limits(&plan, &[], &capabilities, 1 << 40);
        // 128 MiB of storage-buffer range, at 4 KiB per row.
        assert_eq!(wide.longest_text, 32 << 10);
        assert_eq!(wide.tokens, MOST_TOKENS);
        capabilities.device_type = DeviceType::Software;
        let software = limits(&plan, &[], &capabilities, 1 << 40);
        assert_eq!((software.tokens, software.in_flight), (7_000_000_000 / (2 << 20), 2));
        let small = limits(&plan, &[], &capabilities, 12 << 20);
        assert_eq!((small.tokens, small.longest_text), (512, 1024));
        let none = limits(&plan, &[], &capabilities, 0);
        assert_eq!((none.tokens, none.longest_text), (1, 1));
    }

    #[test]
    fn large_discrete_devices_take_a_step_of_training_at_once() {
        let able = |device_type, memory| Capabilities { device_type, memory, ..Capabilities::floor() };
        let of = |device_type, memory| flops_per_list(&able(device_type, memory));
        // As src/train/graph.rs counts them.
        let step = 12_200_000_000_000;
        assert!(of(DeviceType::Discrete, 12 << 30) > step);
        assert_eq!(of(DeviceType::Discrete, 8 << 30), 2_000_000_000_000);
        for other in [DeviceType::Integrated, DeviceType::Virtual, DeviceType::Software] {
            assert_eq!(of(other, 64 << 30), of(other, 8 << 30));
        }
        // Batches of texts need the memory of a data centre's.
        let batch = |memory| flops_per_submission(&able(DeviceType::Discrete, memory));
        assert_eq!([24, 80].map(|gigabytes| batch(gigabytes << 30) > step), [false, true]);
    }

    #[test]
    fn the_smallest_devices_take_less_at_once() {
        let of = |device_type, invocations, memory| {
            flops_per_submission(&Capabilities { device_type, invocations, memory, ..Capabilities::floor() })
        };
        assert_eq!(of(DeviceType::Integrated, 256, 8 << 30), 20_000_000_000);
        assert_eq!(of(DeviceType::Integrated, 1024, 8 << 30), 200_000_000_000);
        assert_eq!(of(DeviceType::Discrete, 1024, 2 << 30), 500_000_000_000);
        assert_eq!(of(DeviceType::Discrete, 1024, 8 << 30), 2_000_000_000_000);
    }

    #[test]
    fn capacities_are_powers_of_two_within_the_limit() {
        let limits = BatchLimits { tokens: 3000, longest_text: 9000, in_flight: 2 };
        let of = |tokens, texts| capacity(Counts::new(tokens, texts), limits);
        assert_eq!(of(0, 0), Counts::new(128, 16));
        assert_eq!(of(129, 17), Counts::new(256, 32));
        assert_eq!(of(2999, 16), Counts::new(3000, 16));
        assert_eq!(of(8191, 1), Counts::new(8191, 16));
    }
}

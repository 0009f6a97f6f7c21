//! No width, head or type falls beside its neighbours: which build runs, and how much it computes in vain, for stored devices.

use super::*;
use crate::backend::vulkan::capabilities::MatrixRows;
use crate::ops::{ActivationKind, Attention, GatedLinear, LayerNorm, LayerNormLinear, Linear, RmsNorm, Softmax};

/// Widths of rows and products, and columns of heads.
const WIDTHS: [usize; 26] = [
    64, 72, 80, 96, 128, 160, 192, 256, 312, 320, 384, 512, 576, 640, 768, 1000, 1002, 1024, 1152, 1280, 1536, 2048,
    2560, 3072, 4096, 8192,
];
const HEADS: [usize; 18] = [24, 26, 32, 40, 48, 56, 64, 72, 80, 96, 104, 112, 120, 128, 160, 192, 224, 256];
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];
/// Computed beside its neighbours, in parts of a hundred.
const MOST_IN_VAIN: u64 = 150;

/// Three devices as their drivers report them: an NVIDIA H200, an AMD RX 7900 XTX, an Intel Arc A770.
fn devices() -> [Capabilities; 3] {
    use Feature::*;
    let common = [SubgroupSizeControl, SubgroupArithmetic, SubgroupVote, SubgroupShuffle, Float16, Storage16, Int8];
    let also = [Storage8, IntegerDotProduct, RoundsToEven, KeepsSpecialFloats, PacksToNearest, Int64, Int16];
    let base = Capabilities {
        device_type: DeviceType::Discrete,
        invocations: 1024,
        workgroup_size: [1024, 1024, 64],
        workgroup_subgroups: 64,
        storage_buffer_range: u64::from(u32::MAX),
        storage_buffer_alignment: 16,
        storage_buffers: 1 << 20,
        memory: 16 << 30,
        allocation: 4 << 30,
        ..Capabilities::floor()
    };
    let of = |name: &str, vendor, [subgroup_size, least_subgroup_size]: [u32; 2], shared_memory, own: &[Feature]| {
        let features = [&common[..], &also, own].concat();
        Capabilities {
            name: name.into(),
            vendor,
            subgroup_size,
            least_subgroup_size,
            shared_memory,
            features,
            ..base.clone()
        }
    };
    let h200 = [MatrixF16, MatrixBf16, MatrixS8, MatrixRowsInLanes, MatrixRowsInQuads];
    [
        Capabilities { matrix_rows: MatrixRows::default(), ..of("H200", 0x10de, [32, 32], 48 << 10, &h200) },
        of("RX 7900 XTX", 0x1002, [64, 32], 64 << 10, &[MatrixF16, MatrixS8Terms16]),
        of("Arc A770", 0x8086, [16, 8], 64 << 10, &[MatrixF16Rows8, MatrixBf16Rows8, MatrixS8Rows8]),
    ]
}

/// What runs a cell: the rank of its build, and what it computes for each hundred that it has to.
#[derive(Debug, Clone, Copy)]
struct Cell {
    rank: u32,
    computed: u64,
}

fn rank(name: &str) -> u32 {
    let kinds = [("-matrix", 3), ("-split", 3), ("-registers", 2)];
    kinds.into_iter().find(|(kind, _)| name.contains(kind)).map_or(1, |(_, rank)| rank)
}

fn known(dispatch: &Dispatch, name: &str) -> Option<u64> {
    let place = dispatch.variant.constants.iter().position(|constant| constant.name == name)?;
    Some(dispatch.constants[place].into())
}

/// Of a product of `n` columns with sums of `k` terms.
fn product([n, k]: [usize; 2], dispatch: &Dispatch) -> u64 {
    let whole = |size: usize, name: &str| {
        let tile = known(dispatch, name).unwrap_or(1).max(1);
        (size as u64).next_multiple_of(tile)
    };
    100 * whole(n, "tile_n") * whole(k, "tile_k") / (n * k) as u64
}

/// Of rows that lanes hold in quads; a row that is read again counts twice.
fn rows(columns: usize, dispatch: &Dispatch) -> u64 {
    let [lanes, quads] = ["lanes", "quads"].map(|name| known(dispatch, name).unwrap_or(1));
    let part = 4 * lanes * quads;
    100 * (columns as u64).next_multiple_of(part) / columns as u64
}

type Lower = fn(usize, DType, &Capabilities) -> crate::Result<Cell>;

fn last(found: crate::Result<Vec<Dispatch>>, computed: impl Fn(&Dispatch) -> u64) -> crate::Result<Cell> {
    let dispatch = found?.into_iter().last().expect("a dispatch");
    Ok(Cell { rank: rank(dispatch.variant.name), computed: computed(&dispatch) })
}

fn linear(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let operands = [Rows(width), Weight(vec![width, width])];
    last(dispatches_as(stored, Linear::default(), &operands, device), |found| product([width; 2], found))
}

fn words(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let n = 30_522;
    let operands = [Rows(width), Weight(vec![n, width])];
    last(dispatches_as(stored, Linear::default(), &operands, device), |found| product([n, width], found))
}

fn gated(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let weight = Weight(vec![width, width]);
    let op = GatedLinear { kind: ActivationKind::Silu };
    let found = dispatches_as(stored, op, &[Rows(width), weight.clone(), weight], device);
    last(found, |found| product([width; 2], found))
}

fn normed_linear(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let vector = || Weight(vec![width]);
    let operands = [Rows(width), vector(), vector(), Weight(vec![width, width])];
    last(dispatches_as(stored, LayerNormLinear::default(), &operands, device), |found| product([width; 2], found))
}

fn layer_norm(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let operands = [Rows(width), Weight(vec![width]), Weight(vec![width])];
    last(dispatches_as(stored, LayerNorm { eps: 1e-5 }, &operands, device), |found| rows(width, found))
}

fn rms_norm(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let operands = [Rows(width), Weight(vec![width])];
    last(dispatches_as(stored, RmsNorm { eps: 1e-5 }, &operands, device), |found| rows(width, found))
}

fn softmax(width: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    last(dispatches_as(stored, Softmax::default(), &[Rows(width)], device), |found| rows(width, found))
}

fn attending(head: usize, causal: bool, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    let op = Attention { heads: 4, kv_heads: 4, head_dim: head, causal, ..Attention::default() };
    let operands = [Rows(4 * head), Rows(4 * head), Rows(4 * head), Offsets, Offsets];
    last(dispatches_as(stored, op, &operands, device), |_| 100)
}

fn attention(head: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    attending(head, false, stored, device)
}

fn causal(head: usize, stored: DType, device: &Capabilities) -> crate::Result<Cell> {
    attending(head, true, stored, device)
}

const OPS: [(&str, Lower, &[usize]); 9] = [
    ("linear", linear, &WIDTHS),
    ("linear to 30,522", words, &WIDTHS),
    ("gated_linear", gated, &WIDTHS),
    ("layer_norm_linear", normed_linear, &WIDTHS),
    ("layer_norm", layer_norm, &WIDTHS),
    ("rms_norm", rms_norm, &WIDTHS),
    ("softmax", softmax, &WIDTHS),
    ("attention", attention, &HEADS),
    ("causal attention", causal, &HEADS),
];

/// Cells that fall, and why.
struct Fall {
    /// How the devices' names begin.
    device: &'static str,
    ops: &'static [&'static str],
    types: &'static [DType],
    sizes: &'static [usize],
    why: &'static str,
}

const NARROW: &[DType] = &[DType::F16, DType::Bf16];
const PRODUCTS: &[&str] = &["linear", "gated_linear", "layer_norm_linear"];
const NORMS: &[&str] = &["layer_norm", "rms_norm", "softmax"];
const IN_QUADS: &str = "rows in 16 bits are read four elements at a time";

#[rustfmt::skip]
const EXPECTED: &[Fall] = &[
    Fall { device: "", ops: PRODUCTS, types: &TYPES, sizes: &[160], why: "it takes two tiles of 128 columns" },
    Fall { device: "", ops: NORMS, types: NARROW, sizes: &[1002], why: IN_QUADS },
    Fall { device: "", ops: &["layer_norm_linear"], types: NARROW, sizes: &[1002], why: IN_QUADS },
    Fall { device: "RX", ops: &["linear", "gated_linear"], types: &[DType::Bf16], sizes: &[1002], why: IN_QUADS },
    Fall { device: "RX", ops: &["linear", "layer_norm_linear"], types: &[DType::Bf16], sizes: &[72], why: "a tile has 128 columns, not 64" },
    Fall { device: "RX", ops: &["causal attention"], types: NARROW, sizes: &[26], why: IN_QUADS },
    Fall { device: "RX", ops: &["attention"], types: &[DType::Bf16], sizes: &[26], why: IN_QUADS },
    Fall { device: "Arc", ops: &["causal attention"], types: NARROW, sizes: &[26], why: IN_QUADS },
    Fall { device: "Arc", ops: &["attention"], types: &[DType::Bf16], sizes: &[26], why: IN_QUADS },
    Fall { device: "RX", ops: &["attention"], types: &[DType::F16], sizes: &[160], why: "no blocks of so wide a head fit, where a matrix' layout is unknown" },
    Fall { device: "Arc", ops: &["attention"], types: &[DType::F16], sizes: &[160], why: "no blocks of so wide a head fit, where a matrix' layout is unknown" },
];

/// Why a cell falls, where that is known.
fn expected(device: &str, op: &str, stored: DType, size: usize) -> Option<&'static str> {
    let of = |fall: &&Fall| {
        device.starts_with(fall.device)
            && fall.ops.contains(&op)
            && fall.types.contains(&stored)
            && fall.sizes.contains(&size)
    };
    EXPECTED.iter().find(of).map(|fall| fall.why)
}

#[test]
fn no_width_head_or_type_falls_beside_its_neighbours() {
    let mut falls = Vec::new();
    let mut cells = 0;
    for (device, (name, of, sizes)) in devices().iter().flat_map(|device| OPS.map(|op| (device, op))) {
        for stored in TYPES {
            let found: Vec<(usize, Option<Cell>)> =
                sizes.iter().map(|size| (*size, of(*size, stored, device).ok())).collect();
            cells += found.len();
            for (place, (size, cell)) in found.iter().enumerate() {
                let beside = [place.checked_sub(1), Some(place + 1)];
                let beside = beside.into_iter().flatten().filter_map(|place| found.get(place)?.1);
                let slower = |other: Cell| match cell {
                    None => true,
                    Some(own) => own.rank < other.rank || 100 * own.computed > MOST_IN_VAIN * other.computed,
                };
                let falling: Vec<Cell> = beside.filter(|other| slower(*other)).collect();
                match (falling.is_empty(), expected(&device.name, name, stored, *size)) {
                    (false, None) => {
                        falls.push(format!(
                            "{} {name} {} {size}: {cell:?} beside {falling:?}",
                            device.name,
                            stored.name()
                        ));
                    }
                    (true, Some(why)) => {
                        falls.push(format!("{} {name} {} {size} falls no longer: {why}", device.name, stored.name()));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(cells > 1500, "{cells}");
    assert!(falls.is_empty(), "{}:\n{}", falls.len(), falls.join("\n"));
}

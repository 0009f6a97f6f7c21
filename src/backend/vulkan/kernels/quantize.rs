//! Dispatches of row quantisation, and of products of quantised rows.

use super::elementwise::{Elements, walk};
use super::linear::{GROUP, fits_integers, in_sixteens};
use super::rows::{Held, Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{
    Tile, dequantize_rows, integer_linear, integer_linear_matrix, quantize_rows, quantize_rows_affine,
    quantize_rows_held, quantize_rows_scales, quantize_rows_scales_affine, quantized_linear, quantized_linear_lanes,
    quantized_linear_matrix,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::ops::{
    DequantizeRows, Dim, IntegerLinear, QuantizeKind, QuantizeRows, QuantizedLinear, Residual, Scope, Shape,
};

/// Fewer rows leave matrix cores idle.
const FEW_ROWS: usize = 16;
/// Units of sixteen bytes of a row that a lane keeps in registers. More leave a processor too few rows at a time: twice as many
/// are 1.2 times slower for 3072 columns in float16 on an H100.
const MOST_HELD: u32 = 3;
/// Words that a workgroup writes, of rows that the batch counts.
const WORDS: u32 = 1024;

/// How many of `places` each workgroup processes, and the grid.
fn share(to: &Lowering<'_>, places: usize) -> Result<(u32, [Extent; 3])> {
    let walk = Elements::of(&Shape::fixed(&[places]), to.capabilities)?;
    Ok((walk.rows_per_group, along(walk.groups)))
}

/// The rows of an operand, also of rows without columns.
fn rows(shape: &Shape) -> Result<Rows> {
    let known = shape.as_rows().map(|(count, columns)| Rows::new(Dim::Fixed(count), columns as u32));
    known.map_or_else(|| Rows::of(shape), Ok)
}

/// `quantize_rows`: first the scales, then the scaled rows; where a row in whole words has a scale of its own, both at once.
pub fn quantize_rows(to: &mut Lowering<'_>, op: &QuantizeRows) -> Result<()> {
    let (of, affine) = (rows(to.shape(0))?, op.kind == QuantizeKind::Affine);
    let (columns, factors) = (of.columns as usize, op.factors);
    let together = match op.kind {
        QuantizeKind::Absmax => true,
        QuantizeKind::Affine => op.pairs,
        QuantizeKind::Ternary | QuantizeKind::Binary => false,
    };
    let own = to.replaced(&quantize_rows::KERNEL).or(to.replaced(&quantize_rows_scales::KERNEL)).is_none();
    if together && op.scope == Scope::Row && op.seed.is_none() && columns > 0 && columns.is_multiple_of(4) && own {
        let octs = to.dtype(0).is_narrow() && columns.is_multiple_of(8);
        let units = of.columns / if octs { 8 } else { 4 };
        // The fewest lanes that can keep a row in registers.
        let lanes = [32, 64, 128].into_iter().find(|lanes| units <= MOST_HELD * lanes).unwrap_or(256);
        let own = units.div_ceil(lanes);
        let held = own <= MOST_HELD;
        let units = if held { own } else { 1 };
        let constants = quantize_rows_held::Constants { lanes, units, held, affine, factors, octs };
        return to.dispatch(of.into(), constants, Held { lanes, ..Held::of(of.columns) }.grid(of));
    }
    // A tensor with one scale is one row to the first dispatch.
    let lines = match (op.scope, of.count) {
        (Scope::Tensor, Dim::Fixed(count)) => Rows::new(Dim::Fixed(1), (count * columns) as u32),
        _ => of,
    };
    let group = if let Scope::Group(group) = op.scope { group as u32 } else { lines.columns };
    let groups = if let Scope::Group(group) = op.scope { columns.div_ceil(group) as u32 } else { 1 };
    let Rows { rows_of, rows, columns: line, .. } = lines;
    let push = quantize_rows_scales::Push { rows_of, rows, columns: line, group, groups };
    let build = if affine {
        let constants = quantize_rows_scales_affine::Constants { pairs: op.pairs, factors };
        Build::new(to.select(&quantize_rows_scales_affine::KERNEL)?, push, constants)
    } else {
        let constants = quantize_rows_scales::Constants { mean: op.kind != QuantizeKind::Absmax, factors };
        Build::new(to.select(&quantize_rows_scales::KERNEL)?, push, constants)
    };
    let grid = match lines.count {
        Dim::Fixed(count) => spread(count as u64 * u64::from(groups)),
        _ => along(Rows { rows: groups, ..lines }.tiles(1)),
    };
    // Pairs leave no other zeros to write.
    let given = [("zero", *to.results().last().expect("quantize_rows has results"))];
    to.add(build, "scales", &given, grid)?;

    let (levels, places) = (op.kind.levels(), op.scope.places(columns));
    let row_bytes = op.stored().bytes(columns);
    let (words_per_group, grid) = match of.count {
        Dim::Fixed(count) => share(to, (count * row_bytes).div_ceil(4))?,
        _ => (WORDS, along(Rows { rows: row_bytes as u32, ..of }.tiles(4 * WORDS))),
    };
    let seed = op.seed.unwrap_or_default();
    let push = quantize_rows::Push {
        rows_of: of.rows_of,
        rows: of.rows,
        columns: of.columns,
        row_bytes: row_bytes as u32,
        words_per_group,
        group: places.group as u32,
        per_row: places.per_row as u32,
        seed_0: seed as u32,
        seed_1: (seed >> 32) as u32,
        offset_0: op.offset as u32,
        offset_1: (op.offset >> 32) as u32,
    };
    let stochastic = op.seed.is_some();
    if affine {
        let constants = quantize_rows_affine::Constants { pairs: op.pairs, stochastic, factors };
        return to.dispatch(push, constants, grid);
    }
    let constants = quantize_rows::Constants { levels: levels as u32, stochastic, factors, unpacked: op.unpacked };
    to.dispatch(push, constants, grid)
}

/// The push block of a product with a weight at a place, in which rows of `q` and of the weight are read sixteen at a time.
fn by_sixteen(to: &Lowering<'_>, weight: usize) -> Result<(Rows, integer_linear_matrix::Push)> {
    let (of, n) = (Rows::of(to.shape(0))?, rows(to.shape(weight))?.rows);
    Ok((of, integer_linear_matrix::Push { rows_of: of.rows_of, rows: of.rows, n, k: of.columns }))
}

/// The tile of such a product on matrix cores, and the grid.
fn tile(to: &Lowering<'_>, of: Rows, n: u32) -> (Tile, [Extent; 3]) {
    let tile = Tile::of_integers(of.count, n, of.columns, to.capabilities);
    let across = Extent::Fixed(GROUP * n.div_ceil(tile.tile_n));
    (tile, [across, of.tiles(GROUP * tile.tile_m), Extent::ONE])
}

/// `integer_linear`, on matrix cores where these multiply 8-bit integers; exact either way.
pub fn integer_linear(to: &mut Lowering<'_>, op: &IntegerLinear) -> Result<()> {
    let levels = op.levels as u32;
    if in_sixteens(to, &integer_linear::KERNEL, 1) && fits_integers(to) {
        let (of, push) = by_sixteen(to, 1)?;
        let (Tile { tile_m, tile_n, tile_k, whole, subgroups, .. }, grid) = tile(to, of, push.n);
        let constants = integer_linear_matrix::Constants { tile_m, tile_n, tile_k, whole, subgroups, levels };
        return to.dispatch(push, constants, grid);
    }
    let (depth, weight) = (to.shape(0).columns(), rows(to.shape(1))?);
    let constants = integer_linear::Constants { whole: depth.is_multiple_of(4), levels };
    walk(to, &to.result().shape, constants, |walk| integer_linear::Push {
        n: weight.rows,
        depth: depth as u32,
        row_bytes: weight.columns,
        ..walk
    })
}

/// `quantized_linear`, in one dispatch: of few rows, and where matrix cores multiply no 8-bit integers, a row's sums are
/// shared by lanes; sums over groups, and rows of other lengths than multiples of sixteen, are added one by one.
pub fn quantized_linear(to: &mut Lowering<'_>, op: &QuantizedLinear) -> Result<()> {
    let &QuantizedLinear { levels, scope, bias, pairs, .. } = op;
    let (levels, residual) = (levels as u32, op.residual == Residual::Added);
    let activation = op.activation.map_or(0, |kind| kind as u32);
    let (shared, grouped) = (scope == Scope::Tensor, matches!(scope, Scope::Group(_)));
    if !grouped && in_sixteens(to, &quantized_linear::KERNEL, 2) {
        let (of, push) = by_sixteen(to, 2)?;
        let few = matches!(of.count, Dim::Fixed(count) if count < FEW_ROWS) && to.stored()? != DType::Bf16;
        let whole_octs = to.result().dtype != DType::F16 || push.n.is_multiple_of(8);
        if fits_integers(to) && !few && whole_octs {
            let (Tile { tile_m, tile_n, tile_k, whole, subgroups, .. }, grid) = tile(to, of, push.n);
            let constants = quantized_linear_matrix::Constants {
                tile_m,
                tile_n,
                tile_k,
                whole,
                subgroups,
                levels,
                activation,
                bias,
                residual,
                pairs,
                shared,
            };
            return to.dispatch(push, constants, grid);
        }
        if quantized_linear_lanes::KERNEL.own(to.stored()?, to.capabilities).is_ok() {
            let rows =
                if let Dim::Fixed(count) = of.count { (count as u32).next_power_of_two().clamp(1, 4) } else { 4 };
            let lanes = if push.k < 1024 { 8 } else { 32 };
            let constants =
                quantized_linear_lanes::Constants { rows, lanes, levels, activation, bias, residual, pairs, shared };
            let across = Extent::Fixed((push.n / 4).div_ceil(256 / lanes));
            return to.dispatch(push, constants, [across, of.tiles(rows), Extent::ONE]);
        }
    }
    let (depth, weight) = (to.shape(0).columns(), rows(to.shape(2))?);
    let places = scope.places(depth);
    let whole = depth.is_multiple_of(4) && (places.per_row <= 1 || places.group.is_multiple_of(4));
    let constants = quantized_linear::Constants { whole, levels, activation, bias, residual, pairs, shared };
    walk(to, &to.result().shape, constants, |walk| quantized_linear::Push {
        n: weight.rows,
        depth: depth as u32,
        row_bytes: weight.columns,
        group: places.group as u32,
        per_row: places.per_row as u32,
        ..walk
    })
}

/// `dequantize_rows`
pub fn dequantize_rows(to: &mut Lowering<'_>, op: &DequantizeRows) -> Result<()> {
    let (width, row_bytes) = (to.result().shape.columns(), to.shape(0).columns() as u32);
    let places = op.scope.places(width);
    let constants = dequantize_rows::Constants { levels: op.levels as u32, affine: op.zero };
    walk(to, &to.result().shape, constants, |walk| dequantize_rows::Push {
        width: width as u32,
        row_bytes,
        group: places.group as u32,
        per_row: places.per_row as u32,
        ..walk
    })
}

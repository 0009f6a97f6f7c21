//! Dispatches of row quantisation, and of products of quantised rows.

use super::builds::{Fit, How, Row, choose};
use super::elementwise::{Elements, walk};
use super::linear::{GROUP, binds, unit_of};
use super::rows::{Held, Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{
    Product, Tile, dequantize_rows, integer_linear, integer_linear_matrix, quantize_rows, quantize_rows_affine,
    quantize_rows_held, quantize_rows_scales, quantize_rows_scales_affine, quantized_linear, quantized_linear_lanes,
    quantized_linear_matrix,
};
use crate::backend::vulkan::kernel::{Extent, Kernel, Variant};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::ops::{
    DequantizeRows, Dim, IntegerLinear, QuantizeKind, QuantizeRows, QuantizedLinear, Residual, Scope, Shape,
};

/// Fewer rows leave matrix cores idle.
const FEW_ROWS: usize = 16;
/// Columns that a lane keeps in registers: fewer are slower on an H200 in float32, more on an H100 in float16, where twice as many
/// of 3072 leave a processor too few rows at a time.
const MOST_HELD: u32 = 24;
/// The most where a whole workgroup has a row: of more, the row is read again.
const MOST_OF_LONG: u32 = 32;
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
        let each = if octs { 8 } else { 4 };
        let units = of.columns / each;
        // The fewest lanes that can keep a row in registers.
        let lanes = [8, 16, 32, 64, 128].into_iter().find(|lanes| units * each <= MOST_HELD * lanes).unwrap_or(256);
        let own = units.div_ceil(lanes);
        let held = own * each <= MOST_OF_LONG;
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

/// What a product of quantised rows is chosen by.
struct Site {
    /// The place of the weight.
    weight: usize,
    /// What of it shares a scale.
    scope: Scope,
    /// Whether lanes serve as few rows as there are better than matrix cores.
    few: bool,
}

type Of = Row<Site, Product, Tile>;

/// Every build; all give the same bits, since sums of integers are exact.
static BUILDS: [Of; 5] = [
    Of::of::<integer_linear_matrix::Constants>(&integer_linear::KERNEL, How::Matrix, on_matrix_cores).at_any_width(),
    Of::of::<integer_linear::Constants>(&integer_linear::KERNEL, How::Plain, plain),
    Of::of::<quantized_linear_matrix::Constants>(&quantized_linear::KERNEL, How::Matrix, on_matrix_cores)
        .at_any_width(),
    Of::of::<quantized_linear_lanes::Constants>(&quantized_linear::KERNEL, How::Lanes, in_lanes),
    Of::of::<quantized_linear::Constants>(&quantized_linear::KERNEL, How::Plain, plain),
];

/// The rows of `q`, if they and those of the weight are read sixteen at a time with one scale.
fn in_sixteens(to: &Lowering<'_>, site: &Site) -> Fit<Rows> {
    if let Scope::Group(_) = site.scope {
        return Err("the weight has groups");
    }
    binds(to, &[(to.shape(0), 1), (to.shape(site.weight), 1), (&to.result().shape, 4)])?;
    Rows::of(to.shape(0)).map_err(|_| "rows are of several axes")
}

/// Refuses more workgroups along the columns than a grid has.
fn in_grid(across: u32) -> Fit<()> {
    if across > Extent::MOST { Err("there are too many columns") } else { Ok(()) }
}

fn on_matrix_cores(to: &Lowering<'_>, site: &Site, variant: &'static Variant) -> Fit<Tile> {
    let Rows { count, columns, .. } = in_sixteens(to, site)?;
    let n = to.result().shape.columns() as u32;
    let cores = Tile::of_cores(variant, to.capabilities);
    let tile = cores.of_integers(count, n, columns, to.capabilities.shared_memory).dealt(1)?;
    in_grid(GROUP * n.div_ceil(tile.tile_n))?;
    let y_unit = match unit_of(&[n as usize]) {
        unit if variant.stored.is_narrow() => unit,
        4.. => 4,
        _ => 1,
    };
    if site.few { Err("there are few rows") } else { Ok(Tile { y_unit, ..tile }) }
}

fn in_lanes(to: &Lowering<'_>, site: &Site, _: &'static Variant) -> Fit<Tile> {
    let Rows { count, columns, .. } = in_sixteens(to, site)?;
    let rows = if let Dim::Fixed(count) = count { (count as u32).next_power_of_two().clamp(1, 4) } else { 4 };
    let lanes = if columns < 1024 { 8 } else { 32 };
    in_grid((to.result().shape.columns() as u32 / 4).div_ceil(256 / lanes))?;
    Ok(Tile { rows, lanes, ..Tile::default() })
}

/// Sums over groups, and rows of any length, added one by one.
fn plain(to: &Lowering<'_>, site: &Site, _: &'static Variant) -> Fit<Tile> {
    let depth = to.shape(0).columns();
    let places = site.scope.places(depth);
    let whole = depth.is_multiple_of(4) && (places.per_row <= 1 || places.group.is_multiple_of(4));
    Ok(Tile { whole, ..Tile::default() })
}

/// Adds the dispatch of a product in place of a kernel; `with` adds to the tile what is applied to the sums.
fn product(to: &mut Lowering<'_>, of: &'static Kernel, site: &Site, with: impl Fn(Tile) -> Tile) -> Result<()> {
    let (n, k) = (to.result().shape.columns(), to.shape(0).columns());
    let chosen = choose(to, of, [n, k], &BUILDS, site)?;
    let (tile, places, n) = (with(chosen.tile), site.scope.places(k), n as u32);
    let push = Product {
        n,
        k: k as u32,
        depth: k as u32,
        row_bytes: rows(to.shape(site.weight))?.columns,
        group: places.group as u32,
        per_row: places.per_row as u32,
        ..Product::default()
    };
    if chosen.how == How::Plain {
        let walk = Elements::of(&to.result().shape, to.capabilities)?;
        let Elements { rows_of, rows, columns, rows_per_group, .. } = walk;
        let build = (chosen.make)(to, Product { rows_of, rows, columns, rows_per_group, ..push }, tile)?;
        return to.add(build, "", &[], along(walk.groups));
    }
    let of = Rows::of(to.shape(0))?;
    let (across, down) = match chosen.how {
        How::Matrix => (GROUP * n.div_ceil(tile.tile_n), GROUP * tile.tile_m),
        _ => ((n / 4).div_ceil(256 / tile.lanes), tile.rows),
    };
    let build = (chosen.make)(to, Product { rows_of: of.rows_of, rows: of.rows, ..push }, tile)?;
    to.add(build, "", &[], [Extent::Fixed(across), of.tiles(down), Extent::Continued { axis: 1 }])
}

/// `integer_linear`
pub fn integer_linear(to: &mut Lowering<'_>, op: &IntegerLinear) -> Result<()> {
    let levels = op.levels as u32;
    let site = Site { weight: 1, scope: Scope::Row, few: false };
    product(to, &integer_linear::KERNEL, &site, |tile| Tile { levels, ..tile })
}

/// `quantized_linear`, in one dispatch.
pub fn quantized_linear(to: &mut Lowering<'_>, op: &QuantizedLinear) -> Result<()> {
    let &QuantizedLinear { levels, scope, bias, pairs, .. } = op;
    let activation = op.activation.map_or(0, |kind| kind as u32);
    let (levels, residual, shared) = (levels as u32, op.residual == Residual::Added, scope == Scope::Tensor);
    let few = |of: Rows| matches!(of.count, Dim::Fixed(count) if count < FEW_ROWS);
    // Lanes take no other widths.
    let lanes = to.stored_at_any_width()? != DType::Bf16 && to.whole_quads().is_ok();
    let few = Rows::of(to.shape(0)).is_ok_and(few) && lanes;
    product(to, &quantized_linear::KERNEL, &Site { weight: 2, scope, few }, |tile| Tile {
        levels,
        activation,
        bias,
        residual,
        pairs,
        shared,
        ..tile
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

//! Dispatches of products and attention whose results have the same bits on every device.

use std::sync::Arc;

use super::attention::{MOST_HEAD_DIM, NONE, products, push, split, starts_at};
use super::linear::{GROUP, binds, number};
use super::rows::{Rows, continued, slices};
use crate::Result;
use crate::backend::Narrow;
use crate::backend::vulkan::generated::{
    Blocks, Product, attention_everywhere as attending, attention_everywhere_distances as by_distance,
    attention_everywhere_matrix as attending_matrix, column_balance, head_integers, linear_everywhere as linear,
    linear_everywhere_matrix as matrix, row_integers,
};
use crate::backend::vulkan::integers::{Form, sizes};
use crate::backend::vulkan::kernel::{Extent, Range, Specialization, Variant};
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::{Capabilities, shared_bytes};
use crate::dtype::DType;
use crate::graph::{Node, Plan};
use crate::numerics::Numerics;
use crate::ops::{Attention, Dim, Linear, Op, Residual, Shape};

/// Rows and columns of a workgroup's tile; columns of one on matrix cores of 16 x 16, smaller ones have as many as rows.
pub const TILE: u32 = 64;
const MATRIX_COLUMNS: u32 = 128;
/// Rows, and columns, of a workgroup that makes integers of rows, and that measures columns.
const ROWS: u32 = 4;
const COLUMNS: u32 = 64;
/// Queries of a workgroup; on matrix cores, and the invocations there.
const QUERIES: u32 = 32;
const MATRIX_QUERIES: u32 = 64;
const MATRIX_INVOCATIONS: u32 = 512;
/// Columns of a head that a workgroup makes integers of.
const HEAD_COLUMNS: u32 = 1024;
/// Terms of 46 bits that 64 bits hold, and most that a kernel adds.
const SHORT_TERMS: usize = 131_072;
const MOST_TERMS: usize = 278_528;

/// What a product on a device needs besides its operands.
pub(super) struct Needs {
    /// Matrices of the weight, and rows and columns of each.
    pub(super) sizes: [usize; 3],
    /// How the integers of both operands are stored.
    form: Form,
    /// Columns of a tile.
    width: u32,
    /// Those of the weight, and its exponents with the balance; `None` of a weight that is given at run time.
    weight: Option<[Range; 2]>,
}

impl Needs {
    /// Of a node; only products of one matrix run on matrix cores.
    pub(super) fn of(to: &Lowering<'_>) -> Self {
        let sizes = sizes(to.shape(1));
        let [_, n, k] = sizes;
        let found = matrix::KERNEL.fitting((DType::F32, Numerics::Everywhere), to.capabilities, Some([n, k]));
        let fits =
            |variant: &&Variant| variant.shared_bytes <= to.capabilities.shared_memory && Linear::of(to.op()).is_some();
        let fitting = found.ok().filter(fits);
        let form = if fitting.is_some() { Form::Digits } else { Form::Words };
        let wide = fitting.and_then(Variant::matrix).is_some_and(|[rows, ..]| rows == 16);
        Needs { sizes, form, width: if wide { MATRIX_COLUMNS } else { TILE }, weight: to.integers(1, form) }
    }

    /// Axes of its scratch memory: the integers of a weight that is given, its exponents with the balance; digits of the rows
    /// of `x`, and their exponents.
    fn scratch(&self, x: &Shape) -> Vec<Shape> {
        let [matrices, n, k] = self.sizes;
        let row = self.form.words(k);
        let given = || [Shape::fixed(&[matrices * n, row]), Shape::fixed(&[matrices * (n + k)])];
        let weight = self.weight.is_none().then(given);
        let rows = (self.form == Form::Digits).then(|| [x.with_columns(row), x.with_columns(1)]);
        weight.into_iter().flatten().chain(rows.into_iter().flatten()).collect()
    }

    /// The integers of the weight, and its exponents with the balance; those of a weight that is given at run time are made by
    /// dispatches.
    ///
    /// # Errors
    /// `Unsupported` for a given weight that a device cannot bind, or without scratch memory.
    pub(super) fn weight(&self, to: &mut Lowering<'_>) -> Result<[Range; 2]> {
        if let Some(ranges) = self.weight {
            return Ok(ranges);
        }
        let [integers, exponents, ..] = to.all_scratch()[..] else {
            return Err(to.unsupported("it has no scratch memory".into()));
        };
        binds(to, &[(to.shape(1), 4)]).map_err(|lack| to.unsupported(lack.into()))?;
        let [matrices, n, k] = self.sizes.map(|size| size as u32);
        let (weight, push) = (to.operand(1), column_balance::Push { n, k });
        for (last, across) in [(false, k.div_ceil(COLUMNS)), (true, 1)] {
            let build = to.own(DType::F32, push, column_balance::Constants { last })?;
            let grid = [Extent::Fixed(across), Extent::Fixed(matrices), Extent::ONE];
            to.add(build, "balance", &[("weight", weight), ("exponents", exponents)], grid)?;
        }
        let constants = row_integers::Constants { digits: self.form == Form::Digits, weight: true };
        let rows = Rows::new(Dim::Fixed((matrices * n) as usize), k);
        rows_as_integers(to, ("weight", rows), [weight, exponents, integers, exponents], (constants, n))?;
        Ok([integers, exponents])
    }
}

/// The plan with the scratch memory that a device's kernels need: integers of products that are the same everywhere, and
/// heads that are split before attention.
pub fn with_scratch(mut plan: Arc<Plan>, capabilities: &Capabilities) -> Arc<Plan> {
    let everywhere = plan.numerics == Numerics::Everywhere;
    let needed = |(place, node): (usize, &Node)| {
        let to = Lowering::new(&plan, node, capabilities, Narrow::Every);
        let shapes = match &node.op {
            Op::Linear(_) | Op::ExpertLinear(_) if everywhere => Needs::of(&to).scratch(to.shape(0)),
            Op::Attention(op) if !everywhere => split::scratch(&to, op),
            Op::Attention(op) if on_matrix_cores(&to, op) => head_scratch(&to, op).into(),
            _ => return None,
        };
        (!shapes.is_empty()).then_some((place, shapes))
    };
    let needed: Vec<_> = plan.graph.nodes.iter().enumerate().filter_map(needed).collect();
    if !needed.is_empty() {
        Arc::make_mut(&mut plan).add_scratch(needed);
    }
    plan
}

/// Rows as integers, with their exponents; the balance of columns is in `exponents` after as many exponents as `balance_at`
/// says.
fn rows_as_integers(
    to: &mut Lowering<'_>,
    (part, rows): (&str, Rows),
    [x, exponents, integers, row_exponents]: [Range; 4],
    (constants, balance_at): (row_integers::Constants, u32),
) -> Result<()> {
    let push = row_integers::Push { rows_of: rows.rows_of, rows: rows.rows, k: rows.columns, balance_at };
    let build = to.own(DType::F32, push, constants)?;
    let given = [("x", x), ("exponents", exponents), ("integers", integers), ("row_exponents", row_exponents)];
    to.add(build, part, &given, continued(rows.tiles(ROWS)))
}

/// Whether sums of so many terms need more than 64 bits.
///
/// # Errors
/// `Unsupported` beyond the most that a kernel adds.
pub fn are_long(to: &Lowering<'_>, terms: usize) -> Result<bool> {
    if terms <= MOST_TERMS {
        return Ok(terms > SHORT_TERMS);
    }
    Err(to.unsupported(format!("sums of {terms} terms, numerics=\"everywhere\" on Vulkan takes {MOST_TERMS}")))
}

/// `linear`: one dispatch, or one per slice of the weight where it is too large to bind; before it those that make integers of
/// a weight that is given at run time and, for matrix cores, of the rows of `x`.
pub fn linear_everywhere(to: &mut Lowering<'_>, op: &Linear) -> Result<()> {
    let rows = Rows::of(&to.result().shape)?;
    let needs = Needs::of(to);
    let Needs { sizes: [_, n, k], form, width, .. } = needs;
    let long = are_long(to, k)?;
    let matrix = form == Form::Digits;
    let [integers, exponents] = needs.weight(to)?;
    let scratch = to.all_scratch();
    let mut operands = vec![("exponents", exponents)];
    if let (true, [.., digits, row_exponents]) = (matrix, &scratch[..]) {
        let constants = row_integers::Constants { digits: true, weight: false };
        let x = [to.operand(0), exponents, *digits, *row_exponents];
        rows_as_integers(to, ("rows", Rows { columns: k as u32, ..rows }), x, (constants, n as u32))?;
        operands.extend([("digits", *digits), ("row_exponents", *row_exponents)]);
    }
    let row_bytes = 4 * form.words(k) as u64;
    let group = if matrix { GROUP } else { 1 };
    // As many as the grid has columns for.
    let range = to.capabilities.storage_buffer_range.min(u64::from(Extent::MOST / group * width) * row_bytes);
    let limited = Capabilities { storage_buffer_range: range, ..to.capabilities.clone() };
    for slice in slices(integers, n, row_bytes, &limited)? {
        let push = Product {
            rows_of: rows.rows_of,
            rows: rows.rows,
            n: slice.rows,
            k: k as u32,
            column: slice.first,
            y_columns: n as u32,
            ..Product::default()
        };
        let (bias, residual, activation) = (op.bias, op.residual == Residual::Added, number(op.activation));
        let build = match matrix {
            true => to.own(DType::F32, push.into(), matrix::Constants { bias, residual, activation })?,
            false => to.own(DType::F32, push.into(), linear::Constants { bias, residual, activation, long })?,
        };
        let across = Extent::Fixed(group * slice.rows.div_ceil(width));
        let grid = [across, rows.tiles(group * TILE), Extent::Continued { axis: 1 }];
        let given: Vec<_> = operands.iter().copied().chain([("weight", slice.range)]).collect();
        to.add(build, "", &given, grid)?;
    }
    Ok(())
}

/// Axes of scratch memory for each: words of its heads as integers, an exponent in the first of four, then digits.
fn head_scratch(to: &Lowering<'_>, op: &Attention) -> [Shape; 3] {
    let words = 4 + Form::DIGITS * op.head_dim / 4;
    products(op).map(|[place, heads, _]| {
        let mut shape = to.shape(place).with_columns(heads);
        shape.0.push(Dim::Fixed(words));
        shape
    })
}

/// Whether attention runs on matrix cores.
fn on_matrix_cores(to: &Lowering<'_>, op: &Attention) -> bool {
    let constants = attending_matrix::Constants::from(Blocks::of(op));
    let found = attending_matrix::KERNEL.fitting((DType::F32, Numerics::Everywhere), to.capabilities, None);
    op.distances.is_none()
        && op.head_dim.is_multiple_of(32)
        && starts_at(to, op, 0, 4).is_ok()
        && to.capabilities.invocations >= MATRIX_INVOCATIONS
        && found.is_ok_and(|own| shared_bytes(own, &constants.values(own)) <= to.capabilities.shared_memory)
        && binds(to, &head_scratch(to, op).each_ref().map(|integers| (integers, 4))).is_ok()
}

/// `attention`: one dispatch; on matrix cores before it one each for queries, keys and values, which makes integers of their
/// heads.
pub fn attention_everywhere(to: &mut Lowering<'_>, op: &Attention) -> Result<()> {
    let reason = match op {
        Attention { dropout, .. } if *dropout > 0.0 => Some("dropout".to_owned()),
        Attention { blocks: Some(_), .. } => Some("requested blocks".to_owned()),
        Attention { head_dim, .. } if *head_dim > MOST_HEAD_DIM => Some(format!("heads of {head_dim} columns")),
        _ => None,
    };
    if let Some(reason) = reason {
        return Err(to.unsupported(format!("numerics=\"everywhere\" on Vulkan has no {reason}")));
    }
    let grid = |per: u32| {
        let heads = Extent::Fixed(op.heads as u32);
        [Extent::Tiles { dim: Dim::Tokens, per }, heads, Extent::Continued { axis: 0 }]
    };
    if on_matrix_cores(to, op) {
        let (scratch, shapes) = (to.all_scratch(), head_scratch(to, op));
        let [q, k, v] = scratch[..] else {
            return Err(to.unsupported("it has no scratch memory".into()));
        };
        for (i, [place, heads, column]) in products(op).into_iter().enumerate() {
            let rows = Rows::of_each(&shapes[i])?;
            let push = head_integers::Push {
                rows_of: rows.rows_of,
                rows: rows.rows,
                heads: heads as u32,
                columns: to.shape(place).columns() as u32,
                first: column as u32,
            };
            let constants = head_integers::Constants { head_dim: op.head_dim as u32, values: place == 2 };
            let build = to.own(DType::F32, push, constants)?;
            let given = [("x", to.operand(place)), ("integers", [q, k, v][i])];
            to.add(build, "integers", &given, continued(rows.tiles(HEAD_COLUMNS / op.head_dim as u32)))?;
        }
        let build = to.own(DType::F32, push(to, op, 1), attending_matrix::Constants::from(Blocks::of(op)))?;
        return to.add(build, "", &[("q", q), ("k", k), ("v", v)], grid(MATRIX_QUERIES));
    }
    let (push, blocks) = (push(to, op, 1), Blocks::of(op));
    let build = match op.distances {
        None => to.own(DType::F32, push, attending::Constants::from(blocks))?,
        Some(columns) => {
            let [a_column, b_column] = columns.map(|column| column.map_or(NONE, |at| at as u32));
            let distance_columns = to.shape(5).columns() as u32;
            let blocks = Blocks { a_column, b_column, distance_columns, ..blocks };
            to.own(DType::F32, push, by_distance::Constants::from(blocks))?
        }
    };
    to.add(build, "", &[], grid(QUERIES))
}

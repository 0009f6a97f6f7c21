//! Ops whose kernels keep rows in registers, one dispatch each: `shaders/include/rows/held-rows.glsl`.

use super::rows::{EVERYWHERE_LANES, Held, LANES, Rows, along, rows_per_group, spread};
use crate::backend::vulkan::generated::{
    cross_entropy, cross_entropy_backward, layer_norm, layer_norm_backward, layer_norm_moments,
    layer_norm_quantize_rows, layer_norm_weight_backward, layer_norm_weight_backward_join, normalize,
    residual_layer_norm, residual_rms_norm, rms_norm, rms_norm_backward, rms_norm_quantize_rows, rms_norm_rope,
    softmax, softmax_backward, softmax_dropout, softmax_joined, softmax_parts,
};
use crate::backend::vulkan::kernel::{Extent, Specialization};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::numerics::Numerics;
use crate::ops::rope;
use crate::ops::softmax::Broadcast;
use crate::ops::{
    Counts, CrossEntropy, CrossEntropyBackward, Dim, LayerNorm, LayerNormBackward, LayerNormQuantizeRows,
    LayerNormWeightBackward, Normalize, ResidualLayerNorm, ResidualRmsNorm, RmsNorm, RmsNormBackward,
    RmsNormQuantizeRows, RmsNormRope, Softmax, SoftmaxBackward, SoftmaxDropout,
};
use crate::{Error, Result};

/// The push block of norms.
type Norm = layer_norm::Push;

/// A norm of the result's rows, or its gradient.
fn norm<C: Specialization<Push = Norm> + From<Held>>(to: &mut Lowering<'_>, eps: f32) -> Result<()> {
    let rows = Rows::of_each(&to.result().shape)?;
    let form = Held::in_plan(to, rows.columns);
    normed::<C>(to, eps, rows, form)
}

/// An RMS norm, whose sums are those of the whole row: where it has parts that are read element by element, these are short, which
/// leaves registers to other rows.
fn rms<C: Specialization<Push = Norm> + From<Held>>(to: &mut Lowering<'_>, eps: f32) -> Result<()> {
    let rows = Rows::of_each(&to.result().shape)?;
    let form = Held::in_plan(to, rows.columns);
    let quads = if form.held || form.vector { form.quads } else { 1 };
    normed::<C>(to, eps, rows, Held { quads, ..form })
}

fn normed<C: Specialization<Push = Norm> + From<Held>>(
    to: &mut Lowering<'_>,
    eps: f32,
    rows: Rows,
    form: Held,
) -> Result<()> {
    to.dispatch(Norm { eps, ..rows.into() }, C::from(form), form.grid(rows))
}

/// `layer_norm`
pub fn layer_norm(to: &mut Lowering<'_>, op: &LayerNorm) -> Result<()> {
    norm::<layer_norm::Constants>(to, op.eps)
}

/// `layer_norm_backward`
pub fn layer_norm_backward(to: &mut Lowering<'_>, op: &LayerNormBackward) -> Result<()> {
    norm::<layer_norm_backward::Constants>(to, op.0.eps)
}

/// A norm of the first operand's rows, which gives integers, scales and, or not, the norm's result.
fn norm_in_integers<C: Specialization<Push = Norm>>(
    to: &mut Lowering<'_>,
    eps: f32,
    constants: impl FnOnce(Held) -> C,
) -> Result<()> {
    let rows = Rows::of_each(to.shape(0))?;
    let form = Held::of(rows.columns);
    let build = Build::new(to.select(C::KERNEL)?, Norm { eps, ..rows.into() }, constants(form));
    // Where the norm's result is not kept, the scales are bound, and nothing more is written.
    let given = [("y", *to.results().last().expect("it has results"))];
    to.add(build, "", &given, form.grid(rows))
}

/// `layer_norm_quantize_rows`
pub fn layer_norm_quantize_rows(to: &mut Lowering<'_>, op: &LayerNormQuantizeRows) -> Result<()> {
    let &LayerNormQuantizeRows { ref norm, factors, kept } = op;
    norm_in_integers(to, norm.eps, |form| layer_norm_quantize_rows::Constants { factors, kept, ..form.into() })
}

/// `rms_norm_quantize_rows`
pub fn rms_norm_quantize_rows(to: &mut Lowering<'_>, op: &RmsNormQuantizeRows) -> Result<()> {
    let &RmsNormQuantizeRows { ref norm, factors, kept } = op;
    norm_in_integers(to, norm.eps, |form| rms_norm_quantize_rows::Constants { factors, kept, ..form.into() })
}

/// `layer_norm_weight_backward`: the rows' moments, the sums of each block of rows, and their sum.
pub fn layer_norm_weight_backward(to: &mut Lowering<'_>, op: &LayerNormWeightBackward) -> Result<()> {
    const COLUMNS: u32 = 64;
    let rows = Rows::of(to.shape(1))?;
    let stored = to.stored()?;
    let form = Held::of(rows.columns);
    let push = layer_norm_moments::Push { eps: op.0.eps, ..rows.into() };
    let build = to.own(stored, push, layer_norm_moments::Constants::from(form))?;
    to.add(build, "moments", &[("y", to.scratch("moments")?)], form.grid(rows))?;
    let (blocks, across) = (rows.rows.div_ceil(LayerNormWeightBackward::ROWS as u32), rows.columns.div_ceil(COLUMNS));
    let build = to.own(stored, rows.into(), layer_norm_weight_backward::Constants {})?;
    to.add(build, "", &[], spread(u64::from(blocks) * u64::from(across)))?;
    let parts = Rows::new(Dim::Fixed(blocks as usize), rows.columns);
    let build = to.own(DType::F32, parts.into(), layer_norm_weight_backward_join::Constants {})?;
    to.add(build, "join", &[], spread(u64::from(across)))
}

/// `residual_layer_norm`
pub fn residual_layer_norm(to: &mut Lowering<'_>, op: &ResidualLayerNorm) -> Result<()> {
    norm::<residual_layer_norm::Constants>(to, op.0.eps)
}

/// `residual_rms_norm`
pub fn residual_rms_norm(to: &mut Lowering<'_>, op: &ResidualRmsNorm) -> Result<()> {
    rms::<residual_rms_norm::Constants>(to, op.0.eps)
}

/// `rms_norm`
pub fn rms_norm(to: &mut Lowering<'_>, op: &RmsNorm) -> Result<()> {
    rms::<rms_norm::Constants>(to, op.eps)
}

/// `rms_norm_backward`
pub fn rms_norm_backward(to: &mut Lowering<'_>, op: &RmsNormBackward) -> Result<()> {
    norm::<rms_norm_backward::Constants>(to, op.0.eps)
}

/// `softmax_backward`
pub fn softmax_backward(to: &mut Lowering<'_>, _: &SoftmaxBackward) -> Result<()> {
    let rows = Rows::of(&to.result().shape)?;
    let form = Held::of(rows.columns);
    to.dispatch(rows.into(), softmax_backward::Constants::from(form), form.grid(rows))
}

/// `softmax`: one dispatch; of few long rows two, with a workgroup for each part.
pub fn softmax(to: &mut Lowering<'_>, op: &Softmax) -> Result<()> {
    let (rows, mask) = (Rows::of_each(&to.result().shape)?, Mask::of(to)?);
    let form = Held::in_plan(to, rows.columns);
    let &Softmax { causal, masked } = op;
    let Mask { kind: mask, queries, sizes: [_, size_1, size_2], steps: [step_0, step_1, step_2] } = mask;
    let push = softmax::Push { queries, size_1, size_2, step_0, step_1, step_2, ..rows.into() };
    let apart = !to.all_scratch().is_empty() && to.numerics() == Numerics::Run;
    if apart && to.replaced(&softmax::KERNEL).is_none() {
        let [parts, _] = Softmax::parts(rows.columns as usize);
        let grid = spread(u64::from(rows.rows) * parts as u64);
        let stored = to.stored()?;
        let build = to.own(stored, push, softmax_parts::Constants { mask, causal, masked, ..form.into() })?;
        to.add(build, "parts", &[], grid)?;
        let build = to.own(stored, push, softmax_joined::Constants { mask, causal, masked, ..form.into() })?;
        return to.add(build, "", &[], grid);
    }
    to.dispatch(push, softmax::Constants { mask, causal, masked, ..form.into() }, form.grid(rows))
}

/// `softmax_dropout`
pub fn softmax_dropout(to: &mut Lowering<'_>, op: &SoftmaxDropout) -> Result<()> {
    let (rows, mask) = (Rows::of(&to.result().shape)?, Mask::of(to)?);
    let form = Held::of(rows.columns);
    let push = softmax_dropout::Push {
        queries: mask.queries,
        size_1: mask.sizes[1],
        size_2: mask.sizes[2],
        step_0: mask.steps[0],
        step_1: mask.steps[1],
        step_2: mask.steps[2],
        p: op.p,
        seed_0: op.seed as u32,
        seed_1: (op.seed >> 32) as u32,
        offset_0: op.offset as u32,
        offset_1: (op.offset >> 32) as u32,
        ..rows.into()
    };
    let constants = softmax_dropout::Constants { mask: mask.kind, causal: op.causal, ..form.into() };
    to.dispatch(push, constants, form.grid(rows))
}

/// `cross_entropy`: one row per class number.
pub fn cross_entropy(to: &mut Lowering<'_>, op: &CrossEntropy) -> Result<()> {
    let rows = Rows { columns: to.shape(0).columns() as u32, ..Rows::of_elements(to.shape(1))? };
    let form = Held::of(rows.columns);
    let (weighted, smoothed) = (to.operands() > 2, op.label_smoothing != 0.0);
    let push = cross_entropy::Push { label_smoothing: op.label_smoothing, ..rows.into() };
    to.dispatch(push, cross_entropy::Constants { weighted, smoothed, ..form.into() }, form.grid(rows))
}

/// `cross_entropy_backward`: the same.
pub fn cross_entropy_backward(to: &mut Lowering<'_>, CrossEntropyBackward(op): &CrossEntropyBackward) -> Result<()> {
    let rows = Rows { columns: to.shape(1).columns() as u32, ..Rows::of_elements(to.shape(2))? };
    let form = Held::of(rows.columns);
    let (weighted, smoothed) = (to.operands() > 3, op.label_smoothing != 0.0);
    let push = cross_entropy::Push { label_smoothing: op.label_smoothing, ..rows.into() };
    let constants = cross_entropy_backward::Constants { weighted, smoothed, ..form.into() };
    let build = Build::new(to.select(&cross_entropy_backward::KERNEL)?, push, constants);
    // Without weights the logits are bound instead, and nothing reads them.
    let weight = to.operand(if weighted { 3 } else { 1 });
    to.add(build, "", &[("weight", weight)], form.grid(rows))
}

/// `normalize`
pub fn normalize(to: &mut Lowering<'_>, op: &Normalize) -> Result<()> {
    /// Columns, or groups of four columns, that a lane keeps in registers.
    const MOST_HELD: u32 = 8;
    let rows = Rows::of(&to.result().shape)?;
    let everywhere = to.numerics() == Numerics::Everywhere;
    let vector = rows.columns % 4 == 0 && !everywhere;
    let units = if vector { rows.columns / 4 } else { rows.columns };
    // The fewest lanes that can keep the row in registers, so that a workgroup has enough rows to hide its barriers.
    let lanes = [LANES, 2 * LANES, 4 * LANES].into_iter().find(|lanes| units <= MOST_HELD * lanes).unwrap_or(8 * LANES);
    let lanes = if everywhere { EVERYWHERE_LANES } else { lanes };
    let held = Some(units.div_ceil(lanes)).filter(|held| *held <= MOST_HELD).unwrap_or(0);
    let groups = match rows.tiles(rows_per_group(lanes)) {
        Extent::Fixed(groups) => Extent::Fixed(groups.min(to.capabilities.workgroup_count[0])),
        batch => batch,
    };
    let constants = normalize::Constants { lanes, vector, floor: op.floor as u32, held };
    to.dispatch(Norm { eps: op.eps, ..rows.into() }, constants, along(groups))
}

/// `rms_norm_rope`
pub fn rms_norm_rope(to: &mut Lowering<'_>, op: &RmsNormRope) -> Result<()> {
    let [batch, places, heads, head] = rope::heads("rms_norm_rope", to.shape(0))?;
    let columns = to.shape(1).columns();
    let place_rows = heads * head / columns.max(1);
    let rows = Rows::new(Dim::Fixed(batch * places * place_rows), columns as u32);
    let whole_quads = head.is_multiple_of(8);
    let form = Held::read(rows.columns, rows.columns.is_multiple_of(4) && whole_quads);
    let variant = to.select(&rms_norm_rope::KERNEL)?;
    if variant.stored.is_narrow() && !whole_quads {
        let what = format!("rms_norm_rope in {}", variant.stored.name());
        return Err(Error::Unsupported { what, reason: format!("a head has {head} columns, no multiple of eight") });
    }
    let shared = to.shape(2).0.len() == 2;
    let push = rms_norm_rope::Push {
        eps: op.0.eps,
        half_head: (head / 2) as u32,
        place_rows: place_rows as u32,
        angles: (if shared { places } else { batch * places }) as u32,
        ..rows.into()
    };
    to.dispatch(push, rms_norm_rope::Constants::from(form), form.grid(rows))
}

/// How `keep` broadcasts over the rows, in the shader's terms.
struct Mask {
    /// `MASK`
    kind: u32,
    /// Rows of axis -2.
    queries: u32,
    sizes: [u32; 3],
    steps: [u32; 3],
}

impl Mask {
    /// The mask of a softmax node.
    ///
    /// # Errors
    /// `InvalidArgument` for a mask that does not broadcast.
    fn of(to: &Lowering<'_>) -> Result<Mask> {
        let shape = &to.result().shape;
        let queries = shape.0.iter().rev().nth(1).map_or(1, |dim| dim.size(Counts::default())) as u32;
        if to.operands() < 2 {
            return Ok(Mask { kind: 0, queries, sizes: [1; 3], steps: [0; 3] });
        }
        let keep = to.shape(1);
        let over = Broadcast::of(shape, keep)
            .ok_or_else(|| Error::InvalidArgument(format!("softmax: keep has shape {keep}, expected {shape}")))?;
        let [sizes, steps] = [over.sizes, over.steps].map(|numbers| numbers.map(|n| n as u32));
        Ok(Mask { kind: if over.by_column { 1 } else { 2 }, queries, sizes, steps })
    }
}

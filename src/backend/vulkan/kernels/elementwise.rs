//! Elementwise ops, one dispatch each, and how their shaders iterate over a tensor: `shaders/include/elements.glsl`.

use super::rows::{Rows, along};
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::{
    activation, activation_backward, adam, add_scaled, bias_gelu, binary, binary_cross_entropy, cast, clip_norm,
    combine_moments, dropout, dropout_keyed, gated, gated_backward, set_rows, sgd,
};
use crate::backend::vulkan::kernel::{Extent, Specialization};
use crate::backend::vulkan::lowering::Lowering;
use crate::dtype::DType;
use crate::numerics::Numerics;
use crate::ops::binary::broadcast;
use crate::ops::clip_norm::EPS;
use crate::ops::{
    Activation, ActivationBackward, Adam, AddScaled, BiasGelu, Binary, BinaryCrossEntropy, Cast, ClipNorm,
    CombineMoments, Counts, Dim, Dropout, Gated, GatedBackward, SetRows, Sgd, Shape,
};

/// A dispatch over all elements of a shape.
pub fn walk<C>(to: &mut Lowering<'_>, over: &Shape, constants: C, push: impl FnOnce(C::Push) -> C::Push) -> Result<()>
where
    C: Specialization,
    C::Push: From<Elements>,
{
    let elements = Elements::of(over, to.capabilities)?;
    to.dispatch(push(elements.into()), constants, along(elements.groups))
}

/// `activation`
pub fn activation(to: &mut Lowering<'_>, op: &Activation) -> Result<()> {
    let constants = activation::Constants { activation: op.kind as u32 };
    walk(to, &to.result().shape, constants, |walk| activation::Push { a: op.a, b: op.b, ..walk })
}

/// `activation_backward`
pub fn activation_backward(to: &mut Lowering<'_>, ActivationBackward(op): &ActivationBackward) -> Result<()> {
    let constants = activation_backward::Constants { activation: op.kind as u32 };
    walk(to, &to.result().shape, constants, |walk| activation::Push { a: op.a, b: op.b, ..walk })
}

/// `adam`
pub fn adam(to: &mut Lowering<'_>, op: &Adam) -> Result<()> {
    let &Adam { beta1, beta2, eps, decay, coupled } = op;
    let constants = adam::Constants { scaled: to.operands() > 5 };
    walk(to, to.shape(0), constants, |walk| adam::Push { beta1, beta2, eps, decay, coupled, ..walk })
}

/// `add_scaled`
pub fn add_scaled(to: &mut Lowering<'_>, _: &AddScaled) -> Result<()> {
    walk(to, to.shape(0), add_scaled::Constants {}, |walk| walk)
}

/// `combine_moments`: over the covariance.
pub fn combine_moments(to: &mut Lowering<'_>, _: &CombineMoments) -> Result<()> {
    let width = to.shape(1).columns() as u32;
    walk(to, to.shape(1), combine_moments::Constants {}, |walk| combine_moments::Push { width, ..walk })
}

/// `sgd`
pub fn sgd(to: &mut Lowering<'_>, op: &Sgd) -> Result<()> {
    let &Sgd { momentum, decay } = op;
    let constants = sgd::Constants { scaled: to.operands() > 4 };
    walk(to, to.shape(0), constants, |walk| sgd::Push { momentum, decay, ..walk })
}

/// `clip_norm`
pub fn clip_norm(to: &mut Lowering<'_>, _: &ClipNorm) -> Result<()> {
    let constants = clip_norm::Constants { scaled: to.operands() > 2 };
    walk(to, to.shape(0), constants, |walk| clip_norm::Push { eps: EPS, ..walk })
}

/// `set_rows`: over the rows to write.
pub fn set_rows(to: &mut Lowering<'_>, _: &SetRows) -> Result<()> {
    let (table, width) = (to.shape(0), to.shape(0).columns() as u32);
    let places = table.rows().size(Counts::default()) as u32;
    walk(to, to.shape(1), set_rows::Constants {}, |walk| set_rows::Push { width, places, ..walk })
}

/// `bias_gelu`
pub fn bias_gelu(to: &mut Lowering<'_>, op: &BiasGelu) -> Result<()> {
    let width = to.result().shape.columns() as u32;
    let constants = bias_gelu::Constants { activation: op.approximate.kind() as u32, vector: width.is_multiple_of(4) };
    walk(to, &to.result().shape, constants, |walk| bias_gelu::Push { a: 1.0, b: 1.0, width, ..walk })
}

/// `binary_cross_entropy`
pub fn binary_cross_entropy(to: &mut Lowering<'_>, _: &BinaryCrossEntropy) -> Result<()> {
    walk(to, &to.result().shape, binary_cross_entropy::Constants {}, |walk| walk)
}

/// `dropout`
pub fn dropout(to: &mut Lowering<'_>, op: &Dropout) -> Result<()> {
    let [seed_0, seed_1] = [op.seed as u32, (op.seed >> 32) as u32];
    let [offset_0, offset_1] = [op.offset as u32, (op.offset >> 32) as u32];
    let (shape, p) = (&to.result().shape, op.p);
    if to.operands() == 1 {
        let push = |walk| dropout::Push { p, seed_0, seed_1, offset_0, offset_1, ..walk };
        return walk(to, shape, dropout::Constants::default(), push);
    }
    let keyed = dropout_keyed::Constants::default();
    walk(to, shape, keyed, |walk| dropout_keyed::Push { p, stream: op.stream, ..walk })
}

/// `gated`
pub fn gated(to: &mut Lowering<'_>, Gated(op): &Gated) -> Result<()> {
    let width = to.result().shape.columns() as u32;
    let constants = gated::Constants { activation: op.kind as u32, vector: width.is_multiple_of(4) };
    walk(to, &to.result().shape, constants, |walk| gated::Push { width, a: op.a, b: op.b, ..walk })
}

/// `gated_backward`: over the gradient, which has half as many columns as the result.
pub fn gated_backward(to: &mut Lowering<'_>, GatedBackward(op): &GatedBackward) -> Result<()> {
    let width = to.shape(0).columns() as u32;
    let constants = gated_backward::Constants { activation: op.kind as u32, vector: width.is_multiple_of(4) };
    walk(to, to.shape(0), constants, |walk| gated::Push { width, a: op.a, b: op.b, ..walk })
}

/// `binary`
pub fn binary(to: &mut Lowering<'_>, op: &Binary) -> Result<()> {
    let axes = broadcast(to.shape(0), to.shape(1))?;
    if axes.len() > 4 {
        let count = axes.len();
        return Err(to.unsupported(format!("b is repeated along {count} separate axes of a, 4 at most")));
    }
    let size = |axis: usize| axes.get(axis).map_or(1, |axis| axis.size as u32);
    let stride = |axis: usize| axes.get(axis).map_or(0, |axis| axis.stride as u32);
    let vector = !axes.is_empty() && (axes.len() == 1 || size(0) % 4 == 0);
    let constants = binary::Constants { kind: op.kind as u32, axes: axes.len() as u32, vector };
    walk(to, &to.result().shape, constants, |walk| binary::Push {
        size_0: size(0),
        size_1: size(1),
        size_2: size(2),
        stride_0: stride(0),
        stride_1: stride(1),
        stride_2: stride(2),
        stride_3: stride(3),
        ..walk
    })
}

/// `cast`: over the words of the result, eight elements at a time where it has 16 bits, by a shader that users cannot replace.
pub fn cast(to: &mut Lowering<'_>, op: &Cast) -> Result<()> {
    let conversion = match (to.dtype(0), op.to) {
        (DType::F32, DType::F16) => 0,
        (DType::F16, DType::F32) => 1,
        (DType::I32, DType::F32) => 2,
        (DType::I32, DType::F16) => 3,
        (from, to) if from == to && from.is_float() => 4,
        (DType::F32, DType::Bf16) => 5,
        (DType::Bf16, DType::F32) => 6,
        (from, _) => return Err(op.unsupported(from)),
    };
    if to.numerics() == Numerics::Everywhere && !matches!(conversion, 2 | 4) {
        return Err(to.unsupported(format!("to {}: numerics=\"everywhere\" has float32 alone", op.to.name())));
    }
    let elements = Elements::in_steps(to.shape(0), if op.to.is_narrow() { 8 } else { 4 }, to.capabilities)?;
    to.add(to.own(DType::F32, elements.into(), cast::Constants { conversion })?, "", &[], along(elements.groups))
}

/// Elements per workgroup: four per invocation, and four times as many where that still leaves enough workgroups.
const FEW: u32 = 1024;
const MANY: u32 = 4096;
/// Enough workgroups to fill any device.
const ENOUGH: u32 = 4096;

/// The leading members of an elementwise shader's push block, and its grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elements {
    /// `rows_of` of `shaders/include/counts.glsl`.
    pub rows_of: u32,
    /// The number of rows where it is fixed.
    pub rows: u32,
    /// Columns; 1 where all axes are fixed, so that every element is a row.
    pub columns: u32,
    /// Rows per workgroup; times the columns, a multiple of the step.
    pub rows_per_group: u32,
    /// Workgroups along x.
    pub groups: Extent,
}

impl Elements {
    /// How a shader iterates over a tensor of this shape.
    ///
    /// # Errors
    /// As [`Rows::of`].
    pub fn of(shape: &Shape, capabilities: &Capabilities) -> Result<Elements> {
        Elements::in_steps(shape, 4, capabilities)
    }

    /// The same with workgroups that start at multiples of `step` elements, 4 or 8.
    fn in_steps(shape: &Shape, step: u32, capabilities: &Capabilities) -> Result<Elements> {
        if shape.0.iter().all(|dim| matches!(dim, Dim::Fixed(_))) {
            let elements = shape.elements(Counts::default()) as u32;
            let least = elements.div_ceil(capabilities.workgroup_count[0]).next_multiple_of(FEW);
            let rows_per_group = least.max(if elements / MANY < ENOUGH { FEW } else { MANY });
            let groups = Extent::Fixed(elements.div_ceil(rows_per_group));
            return Ok(Elements { rows_of: 0, rows: elements, columns: 1, rows_per_group, groups });
        }
        let rows = Rows::of_each(shape)?;
        let columns = rows.columns.max(1);
        let rows_in_step = step >> columns.trailing_zeros().min(step.trailing_zeros());
        let rows_per_group = (MANY / columns).max(1).next_multiple_of(rows_in_step);
        Ok(Elements {
            rows_of: rows.rows_of,
            rows: rows.rows,
            columns: rows.columns,
            rows_per_group,
            groups: rows.tiles(rows_per_group),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_start_at_multiples_of_four_and_are_never_too_many() {
        let floor = Capabilities::floor();
        for elements in [1, 3, 4, 1023, 1025, 1 << 20, 1 << 24, 300_000_001, u32::MAX - 1_000_000] {
            let walk = Elements::of(&Shape::fixed(&[elements as usize]), &floor).unwrap();
            let Extent::Fixed(groups) = walk.groups else { panic!() };
            assert!(
                groups <= floor.workgroup_count[0] && walk.rows_per_group.is_multiple_of(4),
                "{elements}: {walk:?}"
            );
            assert!(u64::from(groups) * u64::from(walk.rows_per_group) >= u64::from(elements));
        }
        for (columns, step) in [1, 2, 3, 6, 12, 40, 1000, 4097, 5000].into_iter().flat_map(|n| [(n, 4), (n, 8)]) {
            let walk = Elements::in_steps(&Shape::matrix(Dim::Tokens, columns), step, &floor).unwrap();
            assert_eq!(walk.rows_per_group * columns as u32 % step, 0, "{columns}");
        }
    }
}

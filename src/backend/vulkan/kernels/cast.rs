//! Dispatches of `cast`.

use super::elements::Elements;
use crate::Result;
use crate::backend::vulkan::generated::cast::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent};
use crate::backend::vulkan::lower::Lowering;
use crate::dtype::DType;
use crate::graph::Node;
use crate::ops::{Cast, Counts, Shape};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Cast) -> Result<()> {
    let from = lowering.plan.graph.value(node.operands[0]).dtype;
    let conversion = match (from, op.to) {
        (DType::F32, DType::F16) => 0,
        (DType::F16, DType::F32) => 1,
        (DType::I32, DType::F32) => 2,
        (DType::I32, DType::F16) => 3,
        (DType::F32, DType::F32) | (DType::F16, DType::F16) => 4,
        (from, _) => return Err(op.unsupported(from)),
    };
    // Arrays alone are cast, and their sizes are known.
    let elements = lowering.shape(node.operands[0]).elements(Counts::default());
    let words = op.to.bytes(elements).div_ceil(4) as u32;
    let variant = KERNEL.own(DType::F32, lowering.capabilities)?;
    let bindings = Bindings { x: lowering.range(node.operands[0]), y: lowering.range(node.result) };
    let walk = Elements::of(&Shape::fixed(&[words as usize]), lowering.capabilities)?;
    let push = Push { elements: elements as u32, words, words_per_group: walk.rows_per_group };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { conversion }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walk.groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}

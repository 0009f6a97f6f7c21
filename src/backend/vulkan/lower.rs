//! From a plan to dispatches: each node is handed to `kernels/<op>.rs`.

use super::kernel::{Dispatch, Kernel, Range, Resource, Variant};
use super::{Capabilities, kernels, registry};
use crate::backend::registry::Registry;
use crate::dtype::DType;
use crate::graph::{Node, Plan, Storage, ValueId};
use crate::ops::{Op, Shape};
use crate::{Error, Result};

/// A plan being turned into dispatches for one device.
pub struct Lowering<'a> {
    /// What is lowered.
    pub plan: &'a Plan,
    /// What it must run on.
    pub capabilities: &'a Capabilities,
    /// Which shader serves whom.
    pub shaders: &'a Registry,
    /// What has come out so far.
    pub dispatches: Vec<Dispatch>,
}

impl Lowering<'_> {
    /// The whole of a value's memory.
    pub fn range(&self, value: ValueId) -> Range {
        Range::whole(match self.plan.storage[value.0] {
            Storage::Input(place) => Resource::Input(place),
            Storage::Weight => Resource::Weight(value),
            Storage::Buffer(buffer) => Resource::Buffer(buffer),
        })
    }

    /// A node's scratch memory, of which its op says what stands at which place.
    ///
    /// # Errors
    /// `Unsupported` where the plan has none for it.
    pub fn scratch(&self, node: &Node, place: usize) -> Result<Range> {
        let missing = || Error::Unsupported { what: node.name.clone(), reason: "it has no such scratch memory".into() };
        node.scratch.get(place).map(|id| self.range(*id)).ok_or_else(missing)
    }

    /// The user's shader that is registered in a kernel's place for the node, or grilly's own for its element type.
    ///
    /// # Errors
    /// `PipelineCreationFailed` or `Unsupported` naming what the device lacks, or what has no narrow form.
    pub fn select(&self, kernel: &Kernel, node: &Node) -> Result<&'static Variant> {
        let stored = self.stored(node)?;
        let Some(variant) = self.replaced(kernel, node) else { return kernel.own(stored, self.capabilities) };
        if stored.is_narrow() {
            let reason = format!("the shader registered for it takes float32, not {}", stored.name());
            return Err(Error::Unsupported { what: node.op.name().into(), reason });
        }
        registry::fits(variant, self.capabilities).map(|()| variant)
    }

    /// How a node's operands are stored: a narrow type if one has it.
    ///
    /// # Errors
    /// `Unsupported` for narrow rows that cannot be read four elements at a time, and where only some of what a kernel takes
    /// so is narrow.
    fn stored(&self, node: &Node) -> Result<DType> {
        let mut stored = DType::F32;
        for id in node.operands.iter().chain([&node.result]) {
            let value = self.plan.graph.value(*id);
            if value.dtype.is_narrow() {
                stored = value.dtype;
                if !value.shape.columns().is_multiple_of(4) {
                    let what = format!("{}, rows of {} elements", value.name, value.shape.columns());
                    let reason = format!("{} takes multiples of four", stored.name());
                    return Err(Error::Unsupported { what, reason });
                }
            }
        }
        let results = node.op.operand(0).narrow.then_some(&node.result);
        let operands = node.operands.iter().enumerate().filter(|(place, _)| node.op.operand(*place).narrow);
        let other = |id: &&ValueId| self.plan.graph.value(**id).dtype != stored;
        if stored.is_narrow()
            && let Some(id) = operands.map(|(_, id)| id).chain(results).find(other)
        {
            let value = self.plan.graph.value(*id);
            let reason = format!("{} is {}, expected {}", value.name, value.dtype.name(), stored.name());
            return Err(Error::Unsupported { what: node.name.clone(), reason });
        }
        Ok(stored)
    }

    /// The user's shader that is registered in a kernel's place for the node.
    pub fn replaced(&self, kernel: &Kernel, node: &Node) -> Option<&'static Variant> {
        registry::in_place_of(kernel, &node.op, node.operands.len(), &self.plan.architecture, self.shaders)
    }

    /// A value's shape.
    pub fn shape(&self, value: ValueId) -> &Shape {
        &self.plan.graph.value(value).shape
    }
}

/// Lowers every node of the plan to the shaders that the registry has for the plan's architecture.
///
/// # Errors
/// `Unsupported` when an op has no variant for the device.
pub fn lower(plan: &Plan, capabilities: &Capabilities, shaders: &Registry) -> Result<Vec<Dispatch>> {
    let mut lowering = Lowering { plan, capabilities, shaders, dispatches: Vec::new() };
    for node in &plan.graph.nodes {
        match &node.op {
            Op::Activation(op) => kernels::activation::lower(&mut lowering, node, op)?,
            Op::ActivationBackward(op) => kernels::activation_backward::lower(&mut lowering, node, op)?,
            Op::Attention(op) => kernels::attention::lower(&mut lowering, node, op)?,
            Op::AttentionMask(op) => kernels::attention_mask::lower(&mut lowering, node, op)?,
            Op::AttentionOutput(op) => kernels::attention_output::lower(&mut lowering, node, op)?,
            Op::AttentionScores(op) => kernels::attention_scores::lower(&mut lowering, node, op)?,
            Op::BiasGelu(op) => kernels::bias_gelu::lower(&mut lowering, node, op)?,
            Op::BinaryCrossEntropy(op) => kernels::binary_cross_entropy::lower(&mut lowering, node, op)?,
            Op::Binary(op) => kernels::binary::lower(&mut lowering, node, op)?,
            Op::Cast(op) => kernels::cast::lower(&mut lowering, node, op)?,
            Op::CrossEntropyBackward(op) => kernels::cross_entropy_backward::lower(&mut lowering, node, op)?,
            Op::CrossEntropy(op) => kernels::cross_entropy::lower(&mut lowering, node, op)?,
            Op::Dropout(op) => kernels::dropout::lower(&mut lowering, node, op)?,
            Op::EmbeddingBackward(op) => kernels::embedding_backward::lower(&mut lowering, node, op)?,
            Op::EmbeddingSum(op) => kernels::embedding_sum::lower(&mut lowering, node, op)?,
            Op::Gated(op) => kernels::gated::lower(&mut lowering, node, op)?,
            Op::GatedBackward(op) => kernels::gated_backward::lower(&mut lowering, node, op)?,
            Op::GatedLinear(op) => kernels::gated_linear::lower(&mut lowering, node, op)?,
            Op::LayerNorm(op) => kernels::layer_norm::lower(&mut lowering, node, op)?,
            Op::LayerNormBackward(op) => kernels::layer_norm_backward::lower(&mut lowering, node, op)?,
            Op::LayerNormLinear(op) => kernels::layer_norm_linear::lower(&mut lowering, node, op)?,
            Op::Linear(op) => kernels::linear::lower(&mut lowering, node, op)?,
            Op::Matmul(op) => kernels::matmul::lower(&mut lowering, node, op)?,
            Op::Normalize(op) => kernels::normalize::lower(&mut lowering, node, op)?,
            Op::Pool(op) => kernels::pool::lower(&mut lowering, node, op)?,
            Op::Reduce(op) => kernels::reduce::lower(&mut lowering, node, op)?,
            Op::ResidualLayerNorm(op) => kernels::residual_layer_norm::lower(&mut lowering, node, op)?,
            Op::ResidualRmsNorm(op) => kernels::residual_rms_norm::lower(&mut lowering, node, op)?,
            Op::RmsNormBackward(op) => kernels::rms_norm_backward::lower(&mut lowering, node, op)?,
            Op::RmsNorm(op) => kernels::rms_norm::lower(&mut lowering, node, op)?,
            Op::RmsNormRope(op) => kernels::rms_norm_rope::lower(&mut lowering, node, op)?,
            Op::Rope(_) => kernels::rope::lower(&mut lowering, node)?,
            Op::SoftmaxBackward(op) => kernels::softmax_backward::lower(&mut lowering, node, op)?,
            Op::SoftmaxDropout(op) => kernels::softmax_dropout::lower(&mut lowering, node, op)?,
            Op::Softmax(op) => kernels::softmax::lower(&mut lowering, node, op)?,
        }
    }
    Ok(lowering.dispatches)
}

//! Lowers a node to dispatches: what kernels need of the node, and the only place where a dispatch is created.

mod constants;
mod stored;

use super::kernel::{Binding, Dispatch, Extent, Kernel, Range, Resource, Specialization, Variant};
use super::{Capabilities, Feature, registry};
use crate::backend::Narrow;
use crate::dtype::DType;
use crate::graph::shaders::{Float32Products, NAMES};
use crate::graph::{Node, Plan, Source, Storage, Value, ValueId};
use crate::numerics::Numerics;
use crate::ops::{Counts, Op, Shape, Signature};
use crate::{Error, Result};

/// Bindings whose name in a shader differs from the op's operand name.
const RENAMED: [(&str, &str); 7] =
    [("a", "q"), ("b", "k"), ("cosine", "cos"), ("sine", "sin"), ("values", "v"), ("weight", "gate"), ("x", "logits")];

/// A node being lowered to dispatches for one device.
pub struct Lowering<'a> {
    plan: &'a Plan,
    node: &'a Node,
    /// The device's capabilities.
    pub capabilities: &'a Capabilities,
    narrow: Narrow,
    /// The dispatches so far.
    pub dispatches: Vec<Dispatch>,
    /// The builds that were chosen, with what those before them lack.
    pub choices: Vec<String>,
}

/// A shader variant with its push block and constants.
pub struct Build {
    variant: &'static Variant,
    constants: Vec<u32>,
    push: Vec<u8>,
}

impl Build {
    /// Creates a build from a variant of the kernel that the constants belong to.
    pub fn new<C: Specialization>(variant: &'static Variant, push: C::Push, constants: C) -> Self {
        Build { variant, constants: constants.values(variant), push: bytemuck::bytes_of(&push).to_vec() }
    }
}

/// The range bound to a binding, by name, where no rule determines it.
pub type Given = (&'static str, Range);

impl<'a> Lowering<'a> {
    /// Starts the lowering of one node of a plan, to the builds that `narrow` allows.
    pub fn new(plan: &'a Plan, node: &'a Node, capabilities: &'a Capabilities, narrow: Narrow) -> Self {
        Lowering { plan, node, capabilities, narrow, dispatches: Vec::new(), choices: Vec::new() }
    }

    /// The operation.
    pub fn op(&self) -> &'a Op {
        &self.node.op
    }

    /// What the plan's numbers mean.
    pub fn numerics(&self) -> Numerics {
        self.plan.numerics
    }

    /// The number of operands.
    pub fn operands(&self) -> usize {
        self.node.operands.len()
    }

    /// The shape of the operand at a position.
    pub fn shape(&self, place: usize) -> &'a Shape {
        &self.plan.graph.value(self.node.operands[place]).shape
    }

    /// The stored type of the operand at a position.
    pub fn dtype(&self, place: usize) -> DType {
        self.plan.graph.value(self.node.operands[place]).dtype
    }

    /// The memory of the operand at a position.
    pub fn operand(&self, place: usize) -> Range {
        self.range(self.node.operands[place])
    }

    /// The node's result.
    pub fn result(&self) -> &'a Value {
        self.plan.graph.value(self.node.results[0])
    }

    /// The memory of the results, in order.
    pub fn results(&self) -> Vec<Range> {
        self.node.results.iter().map(|id| self.range(*id)).collect()
    }

    /// The whole of a value's memory, of a slice its own part.
    fn range(&self, id: ValueId) -> Range {
        let graph = &self.plan.graph;
        let whole = Range::whole(match self.plan.storage[id.0] {
            Storage::Input(place) => Resource::Input(place),
            Storage::State(place) => Resource::State(place),
            Storage::Weight => Resource::Weight(graph.viewed(id)),
            Storage::Buffer(buffer) => Resource::Buffer(buffer),
        });
        if !matches!(graph.value(graph.viewed(id)).source, Source::Slice(..)) {
            return whole;
        }
        let bytes = graph.value(id).bytes(Counts::default()).next_multiple_of(4);
        Range { offset: self.plan.offsets[id.0] as u64, bytes: Some(bytes as u64), ..whole }
    }

    /// The node's scratch memory of this name.
    ///
    /// # Errors
    /// `Unsupported` where the plan has none for it.
    pub fn scratch(&self, name: &str) -> Result<Range> {
        let place = self.op().signature().scratch.iter().position(|own| *own == name);
        let missing = || self.unsupported(format!("it has no scratch memory {name}"));
        place.and_then(|place| self.node.scratch.get(place)).map(|id| self.range(*id)).ok_or_else(missing)
    }

    /// The error for a node that cannot run this way.
    pub fn unsupported(&self, reason: String) -> Error {
        Error::unsupported(&self.node.name, reason)
    }

    /// The user's shader registered for the node in place of a kernel, or grilly's own for its element type.
    ///
    /// # Errors
    /// `PipelineCreationFailed` or `Unsupported` naming the missing feature, or the op without a 16-bit form.
    pub fn select(&self, kernel: &Kernel) -> Result<&'static Variant> {
        self.whole_quads()?;
        self.select_at_any_width(kernel)
    }

    /// The same, also for rows in 16 bits that cannot be read four elements at a time.
    ///
    /// # Errors
    /// As [`Lowering::select`].
    pub fn select_at_any_width(&self, kernel: &Kernel) -> Result<&'static Variant> {
        let stored = self.stored_at_any_width()?;
        let Some(variant) = self.replaced(kernel) else { return self.own_variant(kernel, stored) };
        if stored.is_narrow() {
            let reason = format!("the shader registered for it takes float32, not {}", stored.name());
            return Err(Error::unsupported(self.node.op.name(), reason));
        }
        registry::fits(variant, self.capabilities).map(|()| variant)
    }

    /// The shader registered under a name for an architecture.
    ///
    /// # Errors
    /// As [`registry::select`].
    pub fn registered(&self, shader: &str, architecture: &str) -> Result<&'static Variant> {
        registry::select(&self.plan.shaders, shader, architecture, self.capabilities)
    }

    /// Refuses float32 products on matrix cores where they are to be plain.
    pub fn may_split(&self) -> std::result::Result<(), &'static str> {
        let split = self.plan.shaders.float32_products == Float32Products::Split;
        if split { Ok(()) } else { Err("float32 products are plain") }
    }

    /// The user's shader registered for the node in place of a kernel.
    pub fn replaced(&self, kernel: &Kernel) -> Option<&'static Variant> {
        let Plan { shaders, architecture, .. } = self.plan;
        // The op's other kernels have different interfaces.
        let serving =
            NAMES.iter().filter(|name| name.kernel == kernel.name && (name.serves)(self.op(), self.operands()));
        let names = serving.map(|name| name.shader).chain([kernel.name]);
        names.filter_map(|name| shaders.find(name, architecture)?.user).find_map(registry::user)
    }

    /// The range of a binding named after a result, an operand or scratch memory, or `counts`. For an omitted operand the
    /// first operand is bound: no shader reads it, but a binding must not be empty.
    fn bound(&self, name: &str) -> Result<Range> {
        let Signature { results, scratch, .. } = self.op().signature();
        if name == "counts" {
            return Ok(Range::whole(Resource::Counts));
        }
        if let Some(place) = results.iter().position(|result| result.name == name) {
            return Ok(self.range(self.node.results[place]));
        }
        if scratch.contains(&name) {
            return self.scratch(name);
        }
        let place = operand_of(self.op(), name).filter(|place| *place < self.operands());
        Ok(self.operand(place.unwrap_or(0)))
    }

    /// Grilly's own shader for an element type, which users do not replace, with these constants.
    ///
    /// # Errors
    /// As [`Kernel::own`].
    pub fn own<C: Specialization>(&self, stored: DType, push: C::Push, constants: C) -> Result<Build> {
        Ok(Build::new(self.own_variant(C::KERNEL, stored)?, push, constants))
    }

    /// Grilly's own shader for an element type, with numbers of the plan's meaning.
    ///
    /// # Errors
    /// As [`Kernel::own`].
    fn own_variant(&self, kernel: &Kernel, stored: DType) -> Result<&'static Variant> {
        let found = kernel.own_of((stored, self.numerics()), self.capabilities);
        found.map_err(|error| match self.numerics() {
            Numerics::Run => error,
            Numerics::Everywhere => self.no_kernel_everywhere(),
        })
    }

    /// The error for an op without a kernel whose results have the same bits on every device.
    fn no_kernel_everywhere(&self) -> Error {
        Error::unsupported(self.op().name(), "no Vulkan device has a kernel of numerics=\"everywhere\" for it")
    }

    /// Adds a dispatch of the shader that [`Lowering::select`] returns for the kernel of these constants.
    ///
    /// # Errors
    /// As [`Lowering::select`] and [`Lowering::add`].
    pub fn dispatch<C: Specialization>(&mut self, push: C::Push, constants: C, grid: [Extent; 3]) -> Result<()> {
        let variant = self.select(C::KERNEL)?;
        self.add(Build::new(variant, push, constants), "", &[], grid)
    }

    /// Adds a dispatch, for one part of the node if it has several, after checking it against the device's limits. A
    /// constant named after a feature is set to whether the device has the feature.
    ///
    /// # Errors
    /// `Unsupported` naming the limit.
    pub fn add(&mut self, build: Build, part: &str, given: &[Given], grid: [Extent; 3]) -> Result<()> {
        let Build { variant, mut constants, push } = build;
        if variant.numerics != self.numerics() {
            return Err(self.no_kernel_everywhere());
        }
        let label = [&*self.node.name, part].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        for (constant, value) in variant.constants.iter().zip(&mut constants) {
            if let Some(feature) = Feature::named(constant.name) {
                *value = u32::from(self.capabilities.has(feature));
            }
        }
        let given = |name: &str| given.iter().find(|(own, _)| *own == name).map(|(_, range)| *range);
        let bound = |binding: &Binding| given(binding.name).map_or_else(|| self.bound(binding.name), Ok);
        let bindings = variant.bindings.iter().map(bound).collect::<Result<_>>()?;
        // A user's shader knows its grid as it is below the limit.
        let own = |extent| match extent {
            Extent::Continued { .. } if variant.source.is_empty() => Extent::ONE,
            extent => extent,
        };
        let grid = grid.map(own);
        let mut dispatch = Dispatch { label, variant, constants, bindings, push, grid };
        let counted = |extent: &Extent| !matches!(extent, Extent::Fixed(_) | Extent::Continued { .. });
        if !grid.iter().any(counted) {
            dispatch.grid = dispatch.groups(Counts::default(), self.capabilities)?.map(Extent::Fixed);
        }
        self.dispatches.push(dispatch);
        Ok(())
    }
}

/// The position of the operand that a binding is named after; of a group of operands, also with the group's number.
pub fn operand_of(op: &Op, binding: &str) -> Option<usize> {
    if let (true, Some((name, group))) = (op.signature().grouped, binding.rsplit_once('_')) {
        return op.place_of(name, group.parse::<usize>().ok()? * op.operands().len());
    }
    let renamed = RENAMED.iter().filter(|(name, _)| *name == binding).map(|(_, operand)| *operand);
    [binding].into_iter().chain(renamed).find_map(|name| op.place_of(name, 0))
}

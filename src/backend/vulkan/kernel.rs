//! A shader variant and a dispatch of it, both as plain data: no Vulkan calls here.

use super::integers::Form;
use super::module::Module;
use super::{Capabilities, Feature, capabilities, interface};
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::numerics::Numerics;
use crate::ops::{Counts, Dim};
use crate::{Error, Result};

pub use super::interface::{Access, Scalar};

/// One storage buffer of a shader, as reflected from its SPIR-V.
pub type Binding = interface::Binding<&'static str>;
/// One member of a shader's push-constant block.
pub type PushMember = interface::PushMember<&'static str>;
/// One specialization constant of a shader.
pub type Constant = interface::Constant<&'static str>;

/// One compiled build of a shader.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// `kernel` or `kernel-variant`; also the pipeline's debug name.
    pub name: &'static str,
    /// How activations and matrices are stored.
    pub stored: DType,
    /// What its numbers mean.
    pub numerics: Numerics,
    /// Its GLSL source; empty for a user's shader.
    pub source: &'static str,
    /// Macros it is built with.
    pub defines: &'static [(&'static str, &'static str)],
    /// Features the device must have.
    pub needs: &'static [Feature],
    /// Conditions under which it is chosen, as of `condition` of capabilities.rs.
    pub when: &'static [&'static str],
    /// The module; its entry point is `main`.
    pub spirv: Module,
    /// Storage buffers in order of index.
    pub bindings: &'static [Binding],
    /// Bytes of push constants.
    pub push_bytes: u32,
    /// The push block, by offset.
    pub push: &'static [PushMember],
    /// Specialization constants in order of id.
    pub constants: &'static [Constant],
    /// Workgroup size at the constants' defaults.
    pub local_size: [u32; 3],
    /// Bytes of shared memory at the constants' defaults.
    pub shared_bytes: u32,
}

/// A shader with its variants, the most demanding first and one that needs nothing last.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// The op's name with hyphens.
    pub name: &'static str,
    /// The builds.
    pub variants: &'static [Variant],
}

impl Variant {
    /// Rows, columns and terms of its products on matrix cores.
    pub fn matrix(&self) -> Option<[u32; 3]> {
        self.needs.iter().find_map(|feature| feature.matrix())
    }

    /// What the device, or a product of `[n, k]`, lacks for it.
    fn lack(&self, device: &Capabilities, sizes: Option<[usize; 2]>) -> Option<String> {
        let unmet = |text: &&str| {
            let (of, is, number) = capabilities::condition(text)?;
            let value = match (of, sizes) {
                ("n", sizes) => sizes?[0],
                ("k", sizes) => sizes?[1],
                ("subgroup_size", _) => device.subgroup_size as usize,
                (fact, _) => return (!device.is(fact)).then(|| format!("no {fact}")),
            };
            let holds = match is {
                ">=" => value >= number,
                "<=" => value <= number,
                _ => value.is_multiple_of(number),
            };
            (!holds).then(|| format!("{of} is {value}, takes {is} {number}"))
        };
        let feature = self.needs.iter().find(|feature| !device.has(**feature));
        feature.map(|feature| format!("no {}", feature.name())).or_else(|| self.when.iter().find_map(unmet))
    }
}

impl Kernel {
    /// The first of grilly's own variants for an element type that a device, and a product of `[n, k]`, can have.
    ///
    /// # Errors
    /// What the last of them lacks.
    pub fn fitting(
        &self,
        (stored, numerics): (DType, Numerics),
        device: &Capabilities,
        sizes: Option<[usize; 2]>,
    ) -> std::result::Result<&'static Variant, String> {
        let mut lack = None;
        let of = |variant: &&Variant| (variant.stored, variant.numerics) == (stored, numerics);
        for variant in self.variants.iter().filter(of) {
            lack = variant.lack(device, sizes);
            if lack.is_none() {
                return Ok(variant);
            }
        }
        let missing = match numerics {
            Numerics::Run => format!("no variant for {}", stored.name()),
            Numerics::Everywhere => format!("no variant for numerics=\"everywhere\" in {}", stored.name()),
        };
        Err(lack.unwrap_or(missing))
    }

    /// The first of grilly's own variants for an element type that the device can have, with the numbers of that device.
    ///
    /// # Errors
    /// `Unsupported` naming the type, or the missing feature.
    pub fn own(&self, stored: DType, device: &Capabilities) -> Result<&'static Variant> {
        self.own_of((stored, Numerics::Run), device)
    }

    /// The same with numbers of this meaning.
    ///
    /// # Errors
    /// As [`Kernel::own`].
    pub fn own_of(&self, of: (DType, Numerics), device: &Capabilities) -> Result<&'static Variant> {
        let found = self.fitting(of, device, None);
        found.map_err(|lack| Error::unsupported(self.name, format!("on {}: {lack}", device.name)))
    }
}

/// The specialization constants of a kernel, with its push block and shader; the build generates one implementation per
/// kernel.
pub trait Specialization {
    /// The push-constant block; kernels whose blocks have the same members share the type.
    type Push: bytemuck::Pod;
    /// The shader with its variants.
    const KERNEL: &'static Kernel;
    /// Bits of the constants of `variant`, in its order.
    fn values(&self, variant: &Variant) -> Vec<u32>;
}

/// What a binding refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The batch's [`Counts::words`].
    Counts,
    /// An input, by its position in `Graph::inputs`.
    Input(usize),
    /// A state, which persists between runs, by its position in `Graph::states`.
    State(usize),
    /// A constant.
    Weight(ValueId),
    /// The weight of a product as integers of this form.
    Integers(ValueId, Form),
    /// A buffer of the plan.
    Buffer(usize),
}

/// The bound part of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The resource.
    pub resource: Resource,
    /// First byte, a multiple of the device's storage-buffer alignment.
    pub offset: u64,
    /// Length in bytes; `None` for everything after `offset`.
    pub bytes: Option<u64>,
}

impl Range {
    /// All of a resource.
    pub fn whole(resource: Resource) -> Self {
        Range { resource, offset: 0, bytes: None }
    }
}

/// Workgroups along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extent {
    /// A constant number.
    Fixed(u32),
    /// `ceil(size of dim / per)`, evaluated per batch, so that one recording serves all.
    Tiles {
        /// The dimension that is divided.
        dim: Dim,
        /// Rows per workgroup.
        per: u32,
    },
    /// `ceil((each * size of dim + more) / per)`, none for no rows: enough for rows of which the batch counts so many each,
    /// in groups that start tiles of their own.
    Groups {
        /// The dimension that counts.
        dim: Dim,
        /// Rows of each that it counts.
        each: u32,
        /// Rows that the last tiles of groups may lack.
        more: u32,
        /// Rows per workgroup.
        per: u32,
    },
    /// `floor(tokens / per) + texts`: enough for tiles of `per` tokens that each start at a text's first token.
    TextTiles {
        /// Tokens per workgroup.
        per: u32,
    },
    /// Continues another axis where that needs more than [`Extent::MOST`] workgroups: it then has that many, and this as many
    /// as are enough together; else one. Shaders number them by `group_x` and `group_y` of `shaders/include/counts.glsl`.
    Continued {
        /// The other axis.
        axis: usize,
    },
}

/// Workgroups along each axis for a batch.
pub fn groups_of(grid: [Extent; 3], counts: Counts) -> [u32; 3] {
    let mut groups = grid.map(|extent| extent.groups(counts));
    for (place, extent) in grid.into_iter().enumerate() {
        if let Extent::Continued { axis } = extent
            && groups[axis] > Extent::MOST
        {
            groups[place] = groups[axis].div_ceil(Extent::MOST);
            groups[axis] = Extent::MOST;
        }
    }
    groups
}

impl Extent {
    /// Workgroups along an axis that every device allows.
    pub const MOST: u32 = 65_535;
    /// One workgroup.
    pub const ONE: Extent = Extent::Fixed(1);

    /// Workgroups for a batch.
    pub fn groups(self, counts: Counts) -> u32 {
        match self {
            Extent::Fixed(n) => n,
            Extent::Continued { .. } => 1,
            Extent::Tiles { dim, per } => dim.size(counts).div_ceil(per as usize) as u32,
            Extent::Groups { dim, each, more, per } => match each as usize * dim.size(counts) {
                0 => 0,
                rows => (rows + more as usize).div_ceil(per as usize) as u32,
            },
            Extent::TextTiles { per } => (counts.tokens / per as usize + counts.texts) as u32,
        }
    }
}

/// One complete dispatch, not yet recorded.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// The node's name, for debug labels and profiles.
    pub label: String,
    /// The shader variant.
    pub variant: &'static Variant,
    /// Values of [`Variant::constants`], in their order.
    pub constants: Vec<u32>,
    /// The ranges bound to [`Variant::bindings`], in their order.
    pub bindings: Vec<Range>,
    /// The push block's bytes.
    pub push: Vec<u8>,
    /// Workgroups along x, y and z.
    pub grid: [Extent; 3],
}

impl Dispatch {
    /// Its workgroups for a batch, after a check against the device's limits.
    ///
    /// # Errors
    /// `Unsupported` naming the limit.
    pub fn groups(&self, counts: Counts, capabilities: &Capabilities) -> Result<[u32; 3]> {
        let groups = groups_of(self.grid, counts);
        for (axis, (groups, most)) in groups.iter().zip(capabilities.workgroup_count).enumerate() {
            if *groups > most {
                let reason = format!("{groups} workgroups along axis {axis}, {} allows {most}", capabilities.name);
                return Err(Error::unsupported(format!("{} ({})", self.label, self.variant.name), reason));
            }
        }
        Ok(groups)
    }
}

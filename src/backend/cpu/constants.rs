//! A plan's weights in the form its steps read: matrices of products packed, vectors as floats, embedding tables in
//! place.

use std::collections::HashMap;
use std::sync::Arc;

use super::floats::Floats;
use super::integers::PackedIntegers;
use super::matmul::Packed;
use super::simd::{self, Arch, PANEL_VECTORS};
use crate::graph::{Plan, Source, ValueId};
use crate::ops::signature::Role;
use crate::ops::{Counts, IntegerLinear, Levels, Op, QuantizedLinear, Scope};
use crate::tensor::{Part, TensorView, WeightSource};
use crate::{Error, Result};

fn names(parts: &[Part]) -> String {
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("+")
}

/// All constants of a plan.
pub struct Constants {
    packed: HashMap<ValueId, Arc<[Packed]>>,
    integers: HashMap<ValueId, Arc<PackedIntegers<'static>>>,
    floats: HashMap<ValueId, Arc<Floats>>,
    source: Arc<dyn WeightSource>,
}

impl Constants {
    /// Reads and packs everything `plan` needs. Runs on rayon's current pool.
    ///
    /// # Errors
    /// `Weights` for a tensor that is missing, `InvalidArgument` for one of the wrong size, `NotFinite` for one that holds NaN
    /// or infinity, `OutOfMemory`.
    pub fn new(plan: &Plan, source: Arc<dyn WeightSource>, arch: Arch) -> Result<Self> {
        let (packed, integers, floats) = Default::default();
        let mut constants = Constants { packed, integers, floats, source };
        // Two values made of the same tensors share the result.
        let mut packed: HashMap<&[Part], Arc<[Packed]>> = HashMap::new();
        let mut floats: HashMap<&[Part], Arc<Floats>> = HashMap::new();
        for node in &plan.graph.nodes {
            for (place, id) in node.operands.iter().enumerate() {
                let value = plan.graph.value(*id);
                let own = plan.graph.value(plan.graph.viewed(*id));
                if let Source::Filled(bits) = own.source {
                    let mut floats = Floats::zeros(own.shape.elements(Counts::default()), "a constant")?;
                    floats.fill(f32::from_bits(bits));
                    constants.floats.insert(*id, Arc::new(floats));
                }
                let Source::Weight(weight) = &value.source else { continue };
                let parts = &weight.parts[..];
                let shape = value.shape.sizes(Counts::default());
                match node.op.operand(place).role {
                    // Read row by row, from the file.
                    Role::Table => {}
                    Role::Matrix if node.op.operand(place).stored.is_some() => {
                        let depth = plan.graph.value(node.operands[0]).shape.columns();
                        if !constants.integers.contains_key(id) {
                            let own = constants.pack_integers(&node.op, parts, (shape[0], depth), arch)?;
                            constants.integers.insert(*id, Arc::new(own));
                        }
                    }
                    Role::Matrix => {
                        let matrices = match packed.get(parts) {
                            Some(matrices) => matrices.clone(),
                            None => constants.pack(parts, &shape, arch)?,
                        };
                        packed.insert(parts, matrices.clone());
                        constants.packed.insert(*id, matrices);
                    }
                    _ => {
                        let vector = match floats.get(parts) {
                            Some(vector) => vector.clone(),
                            None => Arc::new(constants.read(parts, shape.iter().product(), arch)?),
                        };
                        floats.insert(parts, vector.clone());
                        constants.floats.insert(*id, vector);
                    }
                }
            }
        }
        Ok(constants)
    }

    /// The tensors of a constant as stored in the file; those of a table are stacked by rows.
    ///
    /// # Errors
    /// As [`Constants::new`].
    pub fn views<'a>(&'a self, parts: &'a [Part], elements: usize) -> Result<Vec<TensorView<'a>>> {
        let views: Vec<TensorView<'a>> = parts.iter().map(|part| part.view(&*self.source)).collect::<Result<_>>()?;
        let found: usize = views.iter().map(TensorView::elements).sum();
        if found != elements {
            return Err(Error::InvalidArgument(format!("{}: {found} elements, expected {elements}", names(parts))));
        }
        Ok(views)
    }

    /// Packs the matrices `[..., rows, depth]` of a shape from its parts, stacked by rows.
    fn pack(&self, parts: &[Part], shape: &[usize], arch: Arch) -> Result<Arc<[Packed]>> {
        let [others @ .., rows, depth] = shape else {
            return Err(Error::InvalidArgument(format!("{}: {shape:?} is not a matrix", names(parts))));
        };
        let (matrices, rows, depth) = (others.iter().product::<usize>(), *rows, *depth);
        let views = self.views(parts, matrices * rows * depth)?;
        let mut places = Vec::with_capacity(matrices * rows);
        for view in &views {
            for row in 0..view.elements() / depth.max(1) {
                places.push((view, row));
            }
        }
        if places.len() != matrices * rows {
            return Err(Error::InvalidArgument(format!("{}: rows of another length than {depth}", names(parts))));
        }
        let pack = |matrix: usize| {
            Packed::new(arch, rows, depth, |n, out| {
                let (view, row) = places[matrix * rows + n];
                view.read_f32(row * depth, out)
            })
        };
        (0..matrices).map(pack).collect()
    }

    /// Packs the matrix `[rows, depth]` of integers that an op multiplies by from its parts, stacked by rows.
    fn pack_integers(
        &self,
        op: &Op,
        parts: &[Part],
        (rows, depth): (usize, usize),
        arch: Arch,
    ) -> Result<PackedIntegers<'static>> {
        let (levels, by_groups) = match op {
            Op::IntegerLinear(IntegerLinear { levels }) => (*levels, false),
            Op::QuantizedLinear(QuantizedLinear { levels, scope, .. }) => (*levels, matches!(scope, Scope::Group(_))),
            _ => (Levels::Int8, false),
        };
        let (dtype, row_bytes) = (levels.dtype(), levels.bytes(depth));
        let views = self.views(parts, rows * row_bytes)?;
        // Sums over groups read whole rows.
        PackedIntegers::new(arch.bytes().filter(|_| !by_groups), rows, depth, |n, values| {
            let mut bytes = vec![0; row_bytes];
            let (mut rest, mut start) = (&mut bytes[..], n * row_bytes);
            for view in &views {
                let count = view.elements().saturating_sub(start).min(rest.len());
                let (part, others) = rest.split_at_mut(count);
                if count > 0 {
                    view.read(start, dtype, part)?;
                }
                start = (start + count).saturating_sub(view.elements());
                rest = others;
            }
            levels.unpack(&bytes, values);
            Ok(())
        })
    }

    /// Reads all elements, the parts concatenated, padded with zeros as the bias of a product requires.
    fn read(&self, parts: &[Part], elements: usize, arch: Arch) -> Result<Floats> {
        let widest = simd::PANEL.max(PANEL_VECTORS * simd::lanes(arch));
        let mut floats = Floats::zeros(elements + widest, "a weight vector")?;
        let mut start = 0;
        for view in self.views(parts, elements)? {
            let count = view.elements();
            view.read_f32(0, &mut floats[start..start + count])?;
            start += count;
        }
        Ok(floats)
    }

    /// The packed matrices of a product.
    pub fn packed(&self, id: ValueId) -> Option<&[Packed]> {
        self.packed.get(&id).map(|packed| &**packed)
    }

    /// The packed integers of a product.
    pub fn integers(&self, id: ValueId) -> Option<&PackedIntegers<'static>> {
        self.integers.get(&id).map(|packed| &**packed)
    }

    /// A constant's floats, followed by zeros.
    pub fn floats(&self, id: ValueId) -> Option<&[f32]> {
        self.floats.get(&id).map(|floats| &floats[..])
    }
}

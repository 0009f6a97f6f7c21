//! A plan's weights in the form its steps read: matrices of products packed, vectors as floats, embedding tables in
//! place.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::exact::{Balance, Exact};
use super::floats::Floats;
use super::integers::PackedIntegers;
use super::matmul::Packed;
use super::simd::{self, Arch, Widest};
use crate::dtype::DType;
use crate::graph::{Plan, Source, ValueId};
use crate::numerics::Numerics;
use crate::ops::signature::Role;
use crate::ops::{Counts, IntegerLinear, Levels, Op, QuantizedLinear, Scope};
use crate::process::memory::need_many;
use crate::tensor::{Part, TensorView, WeightSource};
use crate::{Error, Result, exit};

fn names(parts: &[Part]) -> String {
    parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("+")
}

/// The tensors of a constant, one after the other.
pub struct Stacked<'a>(Vec<TensorView<'a>>);

impl<'a> Stacked<'a> {
    /// The tensors that hold so many elements from `start` on: the first in each, and their places among those elements.
    fn parts(&self, start: usize, count: usize) -> impl Iterator<Item = (&TensorView<'a>, usize, Range<usize>)> {
        let (mut first, mut end) = (start, 0);
        self.0.iter().filter_map(move |view| {
            let own = view.elements().saturating_sub(first).min(count - end);
            let part = (view, first, end..end + own);
            (first, end) = ((first + own).saturating_sub(view.elements()), end + own);
            (own > 0).then_some(part)
        })
    }

    /// Reads elements from `start` on as `dtype`, as many as fit in `out`.
    ///
    /// # Errors
    /// As [`TensorView::read`].
    pub fn read(&self, start: usize, dtype: DType, out: &mut [u8]) -> Result<()> {
        let mut parts = self.parts(start, out.len() / dtype.bytes(1));
        parts.try_for_each(|(view, first, own)| {
            view.read(first, dtype, &mut out[dtype.bytes(own.start)..dtype.bytes(own.end)])
        })
    }

    /// As [`Stacked::read`], floats.
    ///
    /// # Errors
    /// As [`TensorView::read_f32`].
    pub fn read_f32(&self, start: usize, out: &mut [f32]) -> Result<()> {
        self.parts(start, out.len()).try_for_each(|(view, first, own)| view.read_f32(first, &mut out[own]))
    }
}

/// Bytes of the constants that are not read in place, before any of them is made: each alone may be small.
fn bytes(plan: &Plan) -> u128 {
    let values = plan.graph.nodes.iter().flat_map(|node| {
        let operands = node.operands.iter().enumerate();
        operands.filter(|(place, _)| node.op.operand(*place).role != Role::Table).map(|(_, id)| *id)
    });
    let constants = values.filter(|id| matches!(plan.graph.value(*id).source, Source::Weight(_) | Source::Filled(_)));
    // Many graphs read a constant several times.
    let constants: HashSet<ValueId> = constants.collect();
    let bytes = |id: &ValueId| {
        let value = plan.graph.value(*id);
        let width = if value.dtype.is_float() { 4 } else { 1 };
        value.shape.elements(Counts::default()) as u128 * width
    };
    constants.iter().map(bytes).sum()
}

/// All constants of a plan.
pub struct Constants {
    packed: HashMap<ValueId, Arc<[Packed]>>,
    exact: HashMap<ValueId, Arc<[Exact]>>,
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
        let (packed, exact, integers, floats) = Default::default();
        let mut constants = Constants { packed, exact, integers, floats, source };
        need_many(bytes(plan), "all weights")?;
        // Two values made of the same tensors share the result.
        let mut packed: HashMap<&[Part], Arc<[Packed]>> = HashMap::new();
        let mut exact: HashMap<&[Part], Arc<[Exact]>> = HashMap::new();
        let mut floats: HashMap<&[Part], Arc<Floats>> = HashMap::new();
        for node in &plan.graph.nodes {
            exit::check()?;
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
                    Role::Matrix if plan.numerics == Numerics::Everywhere => {
                        let matrices = match exact.get(parts) {
                            Some(matrices) => matrices.clone(),
                            None => constants
                                .pack(parts, &shape, |size, read| Exact::new(arch, Balance::Weight, size, read))?,
                        };
                        exact.insert(parts, matrices.clone());
                        constants.exact.insert(*id, matrices);
                    }
                    Role::Matrix => {
                        let matrices = match packed.get(parts) {
                            Some(matrices) => matrices.clone(),
                            None => constants
                                .pack(parts, &shape, |[rows, depth], read| Packed::new(arch, rows, depth, read))?,
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

    /// The tensors of a constant as stored in the file, stacked by rows.
    ///
    /// # Errors
    /// As [`Constants::new`].
    pub fn stacked<'a>(&'a self, parts: &'a [Part], elements: usize) -> Result<Stacked<'a>> {
        let views: Vec<TensorView<'a>> = parts.iter().map(|part| part.view(&*self.source)).collect::<Result<_>>()?;
        let found: usize = views.iter().map(TensorView::elements).sum();
        if found != elements {
            return Err(Error::InvalidArgument(format!("{}: {found} elements, expected {elements}", names(parts))));
        }
        Ok(Stacked(views))
    }

    /// Packs the matrices `[..., rows, depth]` of a shape from its parts, stacked by rows.
    fn pack<P>(
        &self,
        parts: &[Part],
        shape: &[usize],
        pack: impl Fn([usize; 2], &(dyn Fn(usize, &mut [f32]) -> Result<()> + Sync)) -> Result<P>,
    ) -> Result<Arc<[P]>> {
        let [others @ .., rows, depth] = shape else {
            return Err(Error::InvalidArgument(format!("{}: {shape:?} is not a matrix", names(parts))));
        };
        let (matrices, rows, depth) = (others.iter().product::<usize>(), *rows, *depth);
        let stacked = self.stacked(parts, matrices * rows * depth)?;
        if stacked.0.iter().any(|view| view.elements() % depth.max(1) != 0) {
            return Err(Error::InvalidArgument(format!("{}: rows of another length than {depth}", names(parts))));
        }
        let one = |matrix: usize| pack([rows, depth], &|n, out| stacked.read_f32((matrix * rows + n) * depth, out));
        (0..matrices).map(one).collect()
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
        let stacked = self.stacked(parts, rows * row_bytes)?;
        // Sums over groups read whole rows.
        PackedIntegers::new(arch.bytes().filter(|_| !by_groups), rows, depth, |n, values| {
            let mut bytes = vec![0; row_bytes];
            stacked.read(n * row_bytes, dtype, &mut bytes)?;
            levels.unpack(&bytes, values);
            Ok(())
        })
    }

    /// Reads all elements, the parts concatenated, padded with zeros as the bias of a product requires.
    fn read(&self, parts: &[Part], elements: usize, arch: Arch) -> Result<Floats> {
        let widest = simd::PANEL.max(Widest::of_floats(arch).width());
        let mut floats = Floats::zeros(elements + widest, "a weight vector")?;
        self.stacked(parts, elements)?.read_f32(0, &mut floats[..elements])?;
        Ok(floats)
    }

    /// The packed matrices of a product.
    pub fn packed(&self, id: ValueId) -> Option<&[Packed]> {
        self.packed.get(&id).map(|packed| &**packed)
    }

    /// The matrices of a product whose results are the same on every processor.
    pub fn exact(&self, id: ValueId) -> Option<&[Exact]> {
        self.exact.get(&id).map(|packed| &**packed)
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

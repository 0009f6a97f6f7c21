//! Lowering for the portable floor: grids, slices, push constants and limits, as data.

mod attending;
mod choices;
mod cliffs;
mod everywhere;
mod grids;
mod interfaces;
mod products;
mod routed;
mod walks;

use std::sync::Arc;

use super::super::kernel::{Dispatch, Extent, Resource};
use super::super::{Capabilities, DeviceType, Feature};
use super::{lower, with_scratch};
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::{Dim, Op, Shape};

/// The kind of an operand of a one-node plan.
#[derive(Clone)]
enum Operand {
    Rows(usize),
    Ids,
    Offsets,
    First,
    Key,
    Weight(Vec<usize>),
}
use Operand::{First, Ids, Key, Offsets, Rows, Weight};

fn value(graph: &mut Graph, place: usize, operand: &Operand, stored: DType) -> ValueId {
    let name = format!("operand {place}");
    match operand {
        Rows(columns) => graph.input(&name, Shape::matrix(Dim::Tokens, *columns), stored),
        Ids => graph.input(&name, Shape::vector(Dim::Tokens), DType::U32),
        Offsets => graph.input(&name, Shape::vector(Dim::Boundaries), DType::U32),
        First => graph.input(&name, Shape::vector(Dim::Texts), DType::U32),
        Key => graph.input(&name, Shape::fixed(&[4]), DType::U32),
        Weight(axes) => {
            let stored = if axes.len() == 2 { stored } else { DType::F32 };
            graph.weight_as(stored, vec![name.into()], Shape::fixed(axes))
        }
    }
}

fn dispatches(op: impl Into<Op>, operands: &[Operand], capabilities: &Capabilities) -> crate::Result<Vec<Dispatch>> {
    dispatches_as(DType::F32, op, operands, capabilities)
}

fn dispatches_as(
    stored: DType,
    op: impl Into<Op>,
    operands: &[Operand],
    capabilities: &Capabilities,
) -> crate::Result<Vec<Dispatch>> {
    dispatches_with(&Fusion::default(), stored, op, operands, capabilities)
}

fn dispatches_with(
    fusion: &Fusion<'_>,
    stored: DType,
    op: impl Into<Op>,
    operands: &[Operand],
    capabilities: &Capabilities,
) -> crate::Result<Vec<Dispatch>> {
    let mut graph = Graph::new();
    let ids: Vec<ValueId> = operands.iter().enumerate().map(|(i, o)| value(&mut graph, i, o, stored)).collect();
    let result = graph.node("node", op, &ids)?;
    graph.outputs = vec![result];
    lower(&with_scratch(Arc::new(Plan::with(graph, fusion)?), capabilities), capabilities)
}

fn on_floor(op: impl Into<Op>, operands: &[Operand]) -> Vec<Dispatch> {
    dispatches(op, operands, &Capabilities::floor()).unwrap()
}

fn constant(dispatch: &Dispatch, name: &str) -> u32 {
    dispatch.constants[dispatch.variant.constants.iter().position(|c| c.name == name).unwrap()]
}

fn push(dispatch: &Dispatch) -> &[u32] {
    bytemuck::cast_slice(&dispatch.push)
}

fn tokens(per: u32) -> Extent {
    Extent::Tiles { dim: Dim::Tokens, per }
}

/// Checks what recording relies on.
fn check(dispatch: &Dispatch) {
    let variant = dispatch.variant;
    assert_eq!(dispatch.constants.len(), variant.constants.len(), "{}", variant.name);
    assert_eq!(dispatch.bindings.len(), variant.bindings.len(), "{}", variant.name);
    assert_eq!(dispatch.push.len(), variant.push_bytes as usize, "{}", variant.name);
    assert_eq!(dispatch.bindings[0].resource, Resource::Counts);
}

//! What plans of [`Numerics::Everywhere`](crate::numerics::Numerics) consist of: ops whose numbers it promises, in float32.

use super::fuse::Fusion;
use super::split;
use super::{Graph, Node, Plan, Source, Value, ValueId};
use crate::Result;
use crate::dtype::DType;
use crate::numerics::{Coverage, Numerics};
use crate::ops::{Attention, Op, Shape};

/// The ops of a graph that stay; of the others plans have the steps.
pub(super) fn stays(op: &Op) -> bool {
    !op.is_composed() && op.everywhere() != Coverage::Steps
}

/// Checks that the numbers of every node are promised.
///
/// # Errors
/// `Unsupported` naming the op, or the 16-bit type, and the reason.
pub(super) fn check(graph: &Graph, fusion: &Fusion<'_>) -> Result<()> {
    for Node { name, op, operands, results, .. } in &graph.nodes {
        if let Coverage::Refused(reason) = op.everywhere() {
            return Err(Numerics::refused(op.name(), reason));
        }
        let mut values = operands.iter().chain(results).map(|id| graph.value(*id));
        if let Some(value) = values.find(|value| value.dtype.is_narrow()) {
            let reason = format!("{name} has {} in it, the mode computes in float32", value.name);
            return Err(Numerics::refused(&value.dtype.name(), &reason));
        }
        let parts = Attention::of(op).map_or_else(Vec::new, |op| split::parts(op, fusion.architecture));
        let own = |op: &Op, operands| fusion.shaders.in_place_of(op, operands, fusion.architecture);
        let users = own(op, operands.len()).or_else(|| parts.iter().find_map(|(op, operands)| own(op, *operands)));
        if let Some((shader, row)) = users {
            let reason =
                format!("{} is registered for {shader}; the numbers of users' shaders are their own", row.file);
            return Err(Numerics::refused(op.name(), &reason));
        }
    }
    Ok(())
}

impl Plan {
    /// Adds float32 scratch memory of these axes to nodes, given by their places.
    pub fn add_scratch(&mut self, needed: Vec<(usize, Vec<Shape>)>) {
        for (place, shapes) in needed {
            let name = format!("{} scratch", self.graph.nodes[place].name);
            let value = |shape| Value { name: name.clone(), shape, dtype: DType::F32, source: Source::Node };
            let ids: Vec<ValueId> = shapes.into_iter().map(|shape| self.graph.push(value(shape))).collect();
            self.graph.nodes[place].scratch.extend(ids);
        }
        self.place(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dtype::DType;
    use crate::graph::Plan;
    use crate::graph::shaders::{Registry, Row};
    use crate::ops::{Activation, ActivationKind, Linear, Shape};

    fn plan(graph: Graph, fusion: Fusion<'_>) -> Result<Plan> {
        Plan::with(graph, &Fusion { numerics: Numerics::Everywhere, ..fusion })
    }

    /// A product, then GELU.
    fn product(dtype: DType) -> Graph {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::fixed(&[2, 8]), dtype);
        let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
        let y = graph.node("product", Linear::default(), &[x, weight]).unwrap();
        graph.outputs = vec![graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap()];
        graph
    }

    #[test]
    fn every_op_is_as_its_row_says() {
        let mut seen = [0; 3];
        for (op, (_, axes, _)) in Op::examples().into_iter().filter(|(_, row)| !row.1.is_empty()) {
            let (mut graph, name) = (Graph::new(), op.name());
            let input = |(place, axes): (usize, &&[usize])| {
                let operand = op.operand(place);
                graph.input(operand.name, Shape::fixed(axes), operand.dtype(DType::F32))
            };
            let operands: Vec<_> = axes.iter().enumerate().map(input).collect();
            let operands = graph.completed(&op, &operands);
            let Ok(results) = graph.apply("node", op.clone(), &operands) else { continue };
            graph.outputs = results;
            // What is refused for its type is another test's.
            if graph.outputs.iter().any(|id| graph.value(*id).dtype.is_narrow()) {
                continue;
            }
            let made = plan(graph, Fusion::default());
            match op.everywhere() {
                Coverage::Refused(reason) => {
                    let expected = format!("{name}: numerics=\"everywhere\": {reason}");
                    assert_eq!(made.unwrap_err().to_string(), expected);
                    seen[0] += 1;
                }
                coverage => {
                    let plan = made.unwrap_or_else(|error| panic!("{name}: {error}"));
                    let stays = plan.graph.nodes.iter().any(|node| node.op.name() == name);
                    assert_eq!(stays, coverage == Coverage::Promised, "{name}: {plan}");
                    seen[1 + usize::from(stays)] += 1;
                }
            }
        }
        assert!(seen[0] > 10 && seen[1] > 3 && seen[2] > 10, "{seen:?}");
        assert!(Op::everywhere_of_all().into_iter().map(|(name, _)| name).eq(Op::NAMES.iter().copied()));
    }

    #[test]
    fn plans_fuse_what_keeps_its_bits_and_say_what_their_numbers_mean() {
        let names = |plan: &Plan| plan.graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>();
        let [own, run] = [plan(product(DType::F32), Fusion::default()).unwrap(), Plan::new(product(DType::F32))];
        assert_eq!([names(&own), names(&run)], [["linear"]; 2]);
        assert!(own.to_string().ends_with("\nnumerics: everywhere-1\n"), "{own}");
        assert!(run.to_string().ends_with("\nnumerics: run\n"), "{run}");
        assert_eq!(own.widened().numerics, Numerics::Everywhere);
    }

    #[test]
    fn types_of_16_bits_and_users_shaders_are_refused_by_name() {
        for dtype in [DType::F16, DType::Bf16] {
            let refused = plan(product(dtype), Fusion::default()).unwrap_err().to_string();
            let expected =
                format!("{}: numerics=\"everywhere\": product has x in it, the mode computes in float32", dtype.name());
            assert_eq!(refused, expected);
        }
        let mut registry = Registry::default();
        registry.register("activation-gelu", None, Row::users("mine", 0));
        let shaders = &Arc::new(registry);
        let refused = plan(product(DType::F32), Fusion { shaders, ..Fusion::default() }).unwrap_err().to_string();
        let reason = "mine is registered for activation-gelu; the numbers of users' shaders are their own";
        assert_eq!(refused, format!("activation: numerics=\"everywhere\": {reason}"));
    }
}

//! Memory traffic of fused ops: the ranges they bind add up to the bytes of their work, and nothing of an operand's
//! size is stored between their steps.

use std::collections::BTreeSet;

use super::super::kernel::Resource;
use super::super::{Capabilities, Feature};
use super::lower;
use crate::dtype::DType;
use crate::graph::{Graph, Plan, Storage, ValueId};
use crate::ops::{BiasGelu, Counts, Op, RmsNorm, RmsNormRope, Shape};

fn plan(op: &Op, operands: &[&[usize]], stored: DType) -> Plan {
    let mut graph = Graph::new();
    let values: Vec<ValueId> = (operands.iter().enumerate())
        .map(|(place, axes)| {
            graph.input(&format!("operand {place}"), Shape::fixed(axes), op.operand(place).dtype(stored))
        })
        .collect();
    graph.outputs = vec![graph.node("fused", op.clone(), &values).unwrap()];
    Plan::new(graph)
}

/// The portable floor, and a device that multiplies float16 on matrix cores.
fn devices() -> [Capabilities; 2] {
    let floor = Capabilities::floor();
    let cores = [Feature::MatrixF16, Feature::MatrixBf16];
    let features = [&cores[..], &[Feature::Float16, Feature::Storage16]].concat();
    [floor.clone(), Capabilities { name: "matrix cores".into(), subgroup_size: 32, features, ..floor }]
}

#[test]
fn the_ranges_a_fused_op_binds_are_its_works_bytes() {
    // What a product ends with has no kernels of its own.
    for (op, operands) in Op::fused_examples().into_iter().filter(|(op, _)| !matches!(op, Op::Linear(_))) {
        let shapes: Vec<Shape> = operands.iter().map(|axes| Shape::fixed(axes)).collect();
        assert!(op.definition(&shapes.iter().collect::<Vec<_>>()).unwrap().len() > 1, "{} is fused", op.name());
        for stored in [DType::F32, DType::F16, DType::Bf16] {
            devices().iter().for_each(|device| moves_its_work(&plan(&op, operands, stored), stored, device));
        }
    }
}

/// One dispatch, which binds the operands and the result, after one dispatch per scratch memory that fills it.
fn moves_its_work(plan: &Plan, stored: DType, device: &Capabilities) {
    let node = &plan.graph.nodes[0];
    let name = format!("{} in {} on {}", node.op.name(), stored.name(), device.name);
    let dispatches = lower(plan, device).unwrap();
    let product = matches!(node.op, Op::GatedLinear(_) | Op::LayerNormLinear(_));
    let on_matrices = product && stored.is_narrow() && device.has(Feature::MatrixF16);
    assert_eq!(dispatches.last().unwrap().variant.name.contains("-matrix"), on_matrices, "{name}");
    let mut bound = BTreeSet::new();
    for range in dispatches.iter().flat_map(|dispatch| &dispatch.bindings) {
        assert_eq!((range.offset, range.bytes), (0, None), "{name} binds whole values");
        let storage = match range.resource {
            Resource::Input(place) => Storage::Input(place),
            Resource::Buffer(place) => Storage::Buffer(place),
            _ => continue,
        };
        bound.insert(ValueId(plan.storage.iter().position(|s| *s == storage).unwrap()));
    }
    let counts = Counts::default();
    let bytes = |id: &ValueId| plan.graph.value(*id).bytes(counts);
    let scratch = node.scratch.iter().map(bytes).sum::<usize>();
    // Scratch memory is written and read.
    let moved = bound.iter().map(bytes).sum::<usize>() + scratch;
    assert_eq!(moved as u64, plan.graph.work(node, counts).bytes, "{name}");
    let made = 1 + node.scratch.len();
    assert_eq!((dispatches.len(), plan.buffers.len()), (made, made), "{name}: nothing but the result is made");
    let result = plan.graph.value(plan.graph.outputs[0]);
    assert_eq!((plan.buffer_bytes(counts), result.dtype), (result.bytes(counts) + scratch, stored), "{name}");
    // Vectors: two numbers per row, or one per column.
    let matrices = node.operands.iter().filter(|id| plan.graph.value(**id).shape.0.len() > 1).map(bytes);
    let least = matrices.min().unwrap();
    assert!(node.scratch.iter().all(|id| 4 * bytes(id) < least), "{name}: {scratch} bytes of scratch memory");
}

#[test]
fn a_fused_ops_work_is_that_of_its_steps() {
    let op = Op::from(BiasGelu::default());
    let (x, bias) = (Shape::fixed(&[40, 64]), Shape::fixed(&[64]));
    assert_eq!(op.flops(&[&x, &bias], Counts::default()), 2 * 40 * 64);
    let error = op.infer(&[&x, &x]).unwrap_err().to_string();
    assert!(error.contains("bias_gelu: bias has shape [40, 64], expected [64]"), "{error}");
    let norm = Op::from(RmsNormRope(RmsNorm { eps: 1e-6 }));
    let [x, weight, angles] = [&[2, 5, 4, 16][..], &[17], &[5, 8]].map(Shape::fixed);
    let error = norm.infer(&[&x, &weight, &angles, &angles]).unwrap_err().to_string();
    assert!(error.contains("weight has shape [17], expected [16] or [64]"), "{error}");
    let error = norm.infer(&[&x]).unwrap_err().to_string();
    assert_eq!(error, "rms_norm_rope: 1 operand, expected 4: x, weight, cos, sin");
}

//! What a launch needs beside the code: buffers, and dispatches with their grids and parameters.

use serde_json::{Value, json};

use super::Target;
use crate::Result;
use crate::backend::vulkan::{Access, Binding, Dispatch, PushMember, Range, Resource, Variant, sizes};
use crate::graph::{Plan, ValueId};
use crate::kernels::describe::value;
use crate::ops::Counts;

pub(super) fn interface(
    plan: &Plan,
    counts: Counts,
    dispatches: &[Dispatch],
    names: &[String],
    target: Target,
) -> Result<Value> {
    let buffers = Buffers::of(plan, counts)?;
    let rows: Vec<Value> =
        dispatches.iter().zip(names).map(|(dispatch, name)| row(dispatch, name, counts, &buffers, target)).collect();
    Ok(json!({
        "target": target.name(),
        "entry_point": target.entry_point(),
        "buffers": buffers.rows,
        "dispatches": rows,
    }))
}

/// The memory of a call: its counts, operands, results and scratch memory.
struct Buffers {
    rows: Vec<Value>,
    inputs: usize,
}

impl Buffers {
    fn of(plan: &Plan, counts: Counts) -> Result<Self> {
        let graph = &plan.graph;
        let words = counts.words();
        let mut rows = vec![json!({"name": "counts", "kind": "counts", "bytes": 4 * words.len(), "words": words})];
        let typed = |kind: &str, place: usize, id: ValueId| {
            let value = graph.value(id);
            let (name, bytes) = (&value.name, value.bytes(counts).next_multiple_of(4));
            let (dtype, shape) = (value.dtype.name(), value.shape.sizes(counts));
            json!({"name": name, "kind": kind, "place": place, "dtype": dtype, "shape": shape, "bytes": bytes})
        };
        rows.extend(graph.inputs.iter().enumerate().map(|(place, id)| typed("operand", place, *id)));
        let outputs = plan.output_buffers()?;
        for (place, buffer) in plan.buffers.iter().enumerate() {
            rows.push(match outputs.iter().position(|output| *output == place) {
                Some(at) => typed("result", at, graph.outputs[at]),
                None => json!({"name": format!("scratch {place}"), "kind": "scratch", "bytes": buffer.bytes(counts)}),
            });
        }
        Ok(Buffers { rows, inputs: graph.inputs.len() })
    }

    /// The place of a resource; the graph of an op has neither states nor constants of its own.
    fn place(&self, resource: Resource) -> usize {
        match resource {
            Resource::Input(place) => 1 + place,
            Resource::Buffer(place) => 1 + self.inputs + place,
            Resource::Counts | Resource::State(_) | Resource::Weight(_) => 0,
        }
    }
}

fn row(dispatch: &Dispatch, name: &str, counts: Counts, buffers: &Buffers, target: Target) -> Value {
    let variant = dispatch.variant;
    let (workgroup_size, workgroup_memory) = sizes(variant, &dispatch.constants);
    let bound = |(binding, range): (&Binding, &Range)| {
        let mut others = variant.bindings.iter().zip(&dispatch.bindings);
        let is_written = others.any(|(other, of)| other.access != Access::Read && of.resource == range.resource);
        let (buffer, range) = if binding.access == Access::Read && is_written {
            // An omitted operand, which no result depends on: WebGPU refuses one buffer for both.
            (0, &Range::whole(Resource::Counts))
        } else {
            (buffers.place(range.resource), range)
        };
        let whole = buffers.rows[buffer]["bytes"].as_u64().unwrap_or(0);
        let bytes = range.bytes.unwrap_or(whole.saturating_sub(range.offset));
        let access = if binding.access == Access::Read { "read" } else { "read_write" };
        json!({"binding": binding.index, "name": binding.name, "access": access, "buffer": buffer,
               "offset": range.offset, "bytes": bytes})
    };
    let constants = variant.constants.iter().zip(&dispatch.constants).map(|(constant, bits)| {
        let kind = constant.scalar.glsl();
        json!({"id": constant.id, "name": constant.name, "type": kind, "value": value(kind, *bits)})
    });
    json!({
        "shader": name,
        "workgroup_size": workgroup_size,
        "workgroup_memory": workgroup_memory,
        "grid": dispatch.grid.map(|extent| extent.groups(counts)),
        "bindings": variant.bindings.iter().zip(&dispatch.bindings).map(bound).collect::<Vec<_>>(),
        "parameters": parameters(variant, &dispatch.push, target),
        "constants": constants.collect::<Vec<_>>(),
    })
}

fn parameters(variant: &Variant, push: &[u8], target: Target) -> Value {
    let bits =
        |place: usize| push.get(4 * place..4 * place + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let member = |(place, member): (usize, &PushMember)| {
        let kind = member.scalar.glsl();
        json!({"offset": 4 * place, "name": member.name, "type": kind, "value": value(kind, bits(place))})
    };
    let members: Vec<Value> = variant.push.iter().enumerate().map(member).collect();
    match target {
        Target::Spirv => json!({"kind": "push_constants", "bytes": variant.push_bytes, "members": members}),
        Target::Cuda => json!({"kind": "argument", "argument": variant.bindings.len(), "bytes": variant.push_bytes,
                               "members": members}),
        _ => json!({"kind": "uniform", "binding": variant.bindings.len(),
                    "bytes": variant.push_bytes.next_multiple_of(16), "members": members}),
    }
}

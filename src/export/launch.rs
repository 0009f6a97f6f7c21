//! What a launch needs beside the code: buffers, and dispatches with their grids and parameters.

use serde_json::{Value, json};

use super::architectures::dynamic_memory;
use super::{Target, limits};
use crate::backend::vulkan::{
    Access, Binding, Capabilities, Dispatch, Extent, PushMember, Range, Resource, Variant, bound_weights, sizes,
};
use crate::graph::{Plan, ValueId};
use crate::kernels::describe::value;
use crate::ops::{Counts, Dim};
use crate::{Error, Result};

/// The interface of a plan, of batches with these counts or, for `None`, of any: sizes are then formulas.
pub(super) fn interface(
    plan: &Plan,
    counts: Option<Counts>,
    dispatches: &[Dispatch],
    names: &[String],
    target: Target,
) -> Result<Value> {
    let buffers = Buffers::of(plan, counts, bound_weights(dispatches))?;
    let each = dispatches.iter().zip(names);
    let rows =
        each.map(|(dispatch, name)| row(dispatch, name, counts, &buffers, target)).collect::<Result<Vec<_>>>()?;
    let limits = (target == Target::Wgsl).then(|| limits::beyond_default(&buffers.rows, &rows));
    let mut interface = json!({
        "target": target.name(),
        "entry_point": names.first().map(|name| target.entry_point(name)),
        "buffers": buffers.rows,
        "dispatches": rows,
    });
    if let Some(limits) = limits {
        interface["limits"] = json!(limits);
    }
    if matches!(target, Target::Cuda | Target::Ptx) {
        let matrices = dispatches.iter().any(|dispatch| dispatch.variant.matrix().is_some());
        interface["compute_capability"] = json!(if matrices { [8, 0] } else { [7, 5] });
    }
    Ok(interface)
}

/// The memory of a run: its counts, operands, results, scratch memory and constants.
struct Buffers {
    rows: Vec<Value>,
    inputs: usize,
    /// Places of the constants.
    weights: Vec<(ValueId, usize)>,
}

impl Buffers {
    fn of(plan: &Plan, counts: Option<Counts>, weights: Vec<ValueId>) -> Result<Self> {
        let graph = &plan.graph;
        let words = counts.map(Counts::words);
        let mut rows = vec![json!({"name": "counts", "kind": "counts", "bytes": 4 * Counts::default().words().len(),
                                   "words": words})];
        let typed = |kind: &str, place: usize, id: ValueId| {
            let value = graph.value(id);
            let (name, dtype) = (&value.name, value.dtype.name());
            let row = json!({"name": name, "kind": kind, "place": place, "dtype": dtype});
            Ok(match counts {
                Some(counts) => with(
                    row,
                    json!({"shape": value.shape.sizes(counts),
                                                 "bytes": value.bytes(counts).next_multiple_of(4)}),
                ),
                None => {
                    let shape = value.shape.0.iter().map(|dim| axis(*dim)).collect::<Result<Vec<_>>>()?;
                    let row_bytes = value.dtype.bytes(value.shape.row_elements());
                    with(row, json!({"shape": shape, "rows": shape[0], "row_bytes": row_bytes}))
                }
            })
        };
        for (place, id) in graph.inputs.iter().enumerate() {
            rows.push(typed("operand", place, *id)?);
        }
        let outputs = plan.output_buffers()?;
        for (place, buffer) in plan.buffers.iter().enumerate() {
            let scratch = || json!({"name": format!("scratch {place}"), "kind": "scratch"});
            rows.push(match (outputs.iter().position(|output| *output == place), counts) {
                (Some(at), _) => typed("result", at, graph.outputs[at])?,
                (None, Some(counts)) => with(scratch(), json!({"bytes": buffer.bytes(counts)})),
                (None, None) => with(scratch(), json!({"rows": axis(buffer.rows)?, "row_bytes": buffer.row_bytes})),
            });
        }
        let mut buffers = Buffers { inputs: graph.inputs.len(), weights: Vec::new(), rows };
        let mut offset = 0;
        for id in weights {
            let value = graph.value(id);
            let bytes = value.bytes(Counts::default()).next_multiple_of(4);
            buffers.weights.push((id, buffers.rows.len()));
            buffers.rows.push(json!({"name": value.name, "kind": "weight", "dtype": value.dtype.name(),
                                     "shape": value.shape.sizes(Counts::default()), "offset": offset, "bytes": bytes}));
            offset += bytes;
        }
        Ok(buffers)
    }

    /// The place of a resource.
    fn place(&self, resource: Resource) -> usize {
        match resource {
            Resource::Input(place) => 1 + place,
            Resource::Buffer(place) => 1 + self.inputs + place,
            Resource::Weight(id) => self.weights.iter().find(|(own, _)| *own == id).map_or(0, |(_, place)| *place),
            Resource::Counts | Resource::State(_) | Resource::Integers(..) => 0,
        }
    }
}

/// The members of both.
fn with(mut row: Value, more: Value) -> Value {
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

/// The size of an axis: a number, or `"T"` for the tokens of a batch, `"B"` for its texts, `"B+1"`.
fn axis(dim: Dim) -> Result<Value> {
    match dim {
        Dim::Fixed(size) => Ok(json!(size)),
        Dim::Tokens | Dim::Texts | Dim::Boundaries => Ok(json!(dim.to_string())),
        _ => Err(Error::unsupported(
            format!("rows counted by {dim}"),
            "a plan in another language counts tokens and texts",
        )),
    }
}

/// Workgroups along an axis: a number, or `{"rows", "each", "more", "per"}` for `ceil((each rows + more) / per)` and none for no
/// rows, or `{"text_tiles": per}` for `floor(T / per) + B`.
fn groups(extent: Extent) -> Result<Value> {
    Ok(match extent {
        Extent::Fixed(groups) => json!(groups),
        Extent::Tiles { dim, per } => json!({"rows": axis(dim)?, "each": 1, "more": 0, "per": per}),
        Extent::Groups { dim, each, more, per } => {
            json!({"rows": axis(dim)?, "each": each, "more": more, "per": per})
        }
        Extent::TextTiles { per } => json!({"text_tiles": per}),
        // A batch of a plan is below the limit.
        Extent::Continued { .. } => json!(1),
    })
}

fn grid(dispatch: &Dispatch, counts: Option<Counts>) -> Result<Value> {
    let of_batch = || dispatch.grid.into_iter().map(groups).collect::<Result<Vec<_>>>();
    Ok(match counts {
        Some(counts) => json!(dispatch.groups(counts, &Capabilities::floor())?),
        None => json!(of_batch()?),
    })
}

fn row(dispatch: &Dispatch, name: &str, counts: Option<Counts>, buffers: &Buffers, target: Target) -> Result<Value> {
    let variant = dispatch.variant;
    let (workgroup_size, workgroup_memory) = sizes(variant, &dispatch.constants);
    let bound = |(binding, range): (&Binding, &Range)| {
        let others = variant.bindings.iter().zip(&dispatch.bindings);
        let mut written = others.filter(|(other, of)| other.access != Access::Read && of.resource == range.resource);
        let (buffer, range) = match written.next() {
            // An omitted operand, which no result depends on: WebGPU refuses one buffer for both.
            Some((_, of)) if binding.access == Access::Read && of == range => (0, &Range::whole(Resource::Counts)),
            Some(_) if binding.access == Access::Read => {
                let reason = "it reads and writes parts of one buffer, which WebGPU refuses";
                return Err(Error::unsupported(&dispatch.label, reason));
            }
            _ => (buffers.place(range.resource), range),
        };
        let whole = buffers.rows[buffer]["bytes"].as_u64();
        let bytes = range.bytes.or(whole.map(|whole| whole.saturating_sub(range.offset)));
        let access = if binding.access == Access::Read { "read" } else { "read_write" };
        Ok(json!({"binding": binding.index, "name": binding.name, "access": access, "buffer": buffer,
                  "offset": range.offset, "bytes": bytes}))
    };
    let constants = variant.constants.iter().zip(&dispatch.constants).map(|(constant, bits)| {
        let kind = constant.scalar.glsl();
        json!({"id": constant.id, "name": constant.name, "type": kind, "value": value(kind, *bits)})
    });
    let mut row = json!({
        "step": dispatch.label,
        "shader": name,
        "entry_point": target.entry_point(name),
        "workgroup_size": workgroup_size,
        "workgroup_memory": workgroup_memory,
        "grid": grid(dispatch, counts)?,
        "bindings": variant.bindings.iter().zip(&dispatch.bindings).map(bound).collect::<Result<Vec<_>>>()?,
        "parameters": parameters(variant, &dispatch.push, target),
        "constants": constants.collect::<Vec<_>>(),
    });
    if matches!(target, Target::Cuda | Target::Ptx)
        && let Some(bytes) = dynamic_memory(workgroup_memory)
    {
        row["dynamic_memory"] = json!(bytes);
    }
    Ok(row)
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
        Target::Cuda | Target::Ptx => {
            json!({"kind": "argument", "argument": variant.bindings.len(), "bytes": variant.push_bytes,
                               "members": members})
        }
        _ => json!({"kind": "uniform", "binding": variant.bindings.len(),
                    "bytes": variant.push_bytes.next_multiple_of(16), "members": members}),
    }
}

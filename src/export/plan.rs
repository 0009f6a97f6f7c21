//! A plan whose batches vary in size, in another language.

use std::sync::Arc;

use super::{Compiled, Target, launch, limits, shaders_of};
use crate::backend::vulkan::{Capabilities, Extent, Resource, bound_weights, lower};
use crate::graph::{Plan, ValueId};
use crate::model::shaders;
use crate::numerics::Numerics;
use crate::ops::Counts;
use crate::{Error, Result};

/// A plan in one language.
pub(crate) struct CompiledPlan {
    pub compiled: Compiled,
    /// The plan, in float32.
    pub plan: Plan,
    /// Its constants, in the order of the interface.
    pub weights: Vec<ValueId>,
}

/// The code of all steps of a plan, in float32 and by grilly's own kernels, with an interface whose sizes are formulas of a
/// batch's tokens and texts.
///
/// # Errors
/// `Unsupported` naming what stops it: texts that must have one length, states, a constant too large to bind, a kernel.
pub(crate) fn compile_plan(plan: &Plan, target: Target) -> Result<CompiledPlan> {
    if plan.numerics == Numerics::Everywhere {
        let reason =
            "compilers of other languages may contract a product and a sum into one operation, with other bits";
        return Err(Numerics::refused("the plan", reason));
    }
    let mut plan = plan.widened();
    if plan.graph.needs_one_length() {
        let reason = "all texts of a batch must have one length, because a shader of yours is registered for a part of its \
                      attention: unregister it, and load the model again";
        return Err(Error::unsupported("the plan", reason));
    }
    plan.check_batches()?;
    plan.shaders = Arc::new(shaders::shipped());
    let capabilities = Capabilities { shared_memory: target.shared_memory(), ..Capabilities::floor() };
    let mut dispatches = lower(&plan, &capabilities)?;
    dispatches.retain(|dispatch| !dispatch.grid.contains(&Extent::Fixed(0)));
    let weights = bound_weights(&dispatches);
    let bytes = |id: &ValueId| plan.graph.value(*id).bytes(Counts::default()) as u64;
    for id in &weights {
        let value = plan.graph.value(*id);
        if value.dtype.bits() < 16 {
            let reason =
                format!("it is {}, and plans are exported in float32: load the model in float32", value.dtype.name());
            return Err(Error::unsupported(format!("the tensor {}", value.name), reason));
        }
        within(&plan, *id, bytes(id), limits::BUFFER.1, "a buffer")?;
    }
    for range in dispatches.iter().flat_map(|dispatch| &dispatch.bindings) {
        if let Resource::Weight(id) = range.resource {
            let bound = range.bytes.unwrap_or(bytes(&id) - range.offset);
            within(&plan, id, bound, capabilities.storage_buffer_range, "a binding")?;
        }
    }
    let (code, names) = shaders_of(&dispatches, target)?;
    let interface = launch::interface(&plan, None, &dispatches, &names, target)?;
    Ok(CompiledPlan { compiled: Compiled { code, interface }, plan, weights })
}

fn within(plan: &Plan, id: ValueId, bytes: u64, most: u64, what: &str) -> Result<()> {
    let name = &plan.graph.value(id).name;
    let reason = || format!("{bytes} bytes of it are needed at once, and {what} has at most {most} by WebGPU's limits");
    if bytes <= most { Ok(()) } else { Err(Error::unsupported(format!("the tensor {name}"), reason())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;
    use crate::ops::{Dim, EmbeddingSum, Linear, Shape};
    use serde_json::json;

    fn plan(rows: usize) -> Plan {
        let mut graph = Graph::new();
        let ids = graph.input("ids", Shape::vector(Dim::Tokens), DType::U32);
        let table = graph.weight(vec!["table".into()], Shape::fixed(&[rows, 64]));
        let x = graph.node("words", EmbeddingSum {}, &[ids, table]).unwrap();
        let w = graph.weight(vec!["w".into()], Shape::fixed(&[32, 64]));
        graph.outputs = vec![graph.node("product", Linear::default(), &[x, w]).unwrap()];
        Plan::new(graph)
    }

    #[test]
    fn sizes_are_formulas_of_the_batch() {
        let CompiledPlan { compiled, weights, .. } = compile_plan(&plan(1000), Target::Wgsl).unwrap();
        let interface = &compiled.interface;
        let buffers = interface["buffers"].as_array().unwrap();
        let of = |kind: &str| buffers.iter().filter(|row| row["kind"] == kind).cloned().collect::<Vec<_>>();
        assert_eq!((of("result")[0]["rows"].clone(), of("result")[0]["row_bytes"].clone()), (json!("T"), json!(128)));
        assert_eq!(of("weight").len(), weights.len());
        assert_eq!(
            (of("weight")[1]["offset"].clone(), of("weight")[1]["bytes"].clone()),
            (json!(256_000), json!(8192))
        );
        let grid = &interface["dispatches"][0]["grid"][0];
        assert_eq!((&grid["rows"], &grid["per"]), (&json!("T"), &json!(4)));
        assert!(compiled.code.iter().all(|code| std::str::from_utf8(&code.bytes).unwrap().contains("@compute")));
    }

    #[test]
    fn a_tensor_over_the_limits_is_named() {
        let error = compile_plan(&plan(2 << 20), Target::Wgsl).err().unwrap().to_string();
        assert_eq!(
            error,
            "the tensor table: 536870912 bytes of it are needed at once, and a buffer has at most 268435456 by WebGPU's \
             limits"
        );
    }
}

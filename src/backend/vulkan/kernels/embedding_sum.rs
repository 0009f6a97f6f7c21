//! Dispatches of `embedding_sum`: up to three tables a dispatch; a table too large to bind, one dispatch a slice.

use super::rows::{Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::generated::embedding_sum::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{Counts, EmbeddingSum};

/// Rows one workgroup takes.
const ROWS_PER_GROUP: u32 = 4;
/// Tables one dispatch adds: two bindings each, beside counts and result, make eight.
const MOST_TERMS: usize = 3;

/// An index with the table it points into, or a slice of it.
#[derive(Clone, Copy)]
struct Term {
    index: Range,
    table: Slice,
}

/// What one dispatch does.
struct Step {
    terms: Vec<Term>,
    sliced: bool,
}

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, _op: &EmbeddingSum) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    // Groups of steps; the first group writes, each later one adds to what is there.
    let mut groups: Vec<Vec<Step>> = Vec::new();
    let mut open = false;
    for pair in node.operands.chunks_exact(2) {
        let index = lowering.range(pair[0]);
        let table_rows = lowering.shape(pair[1]).rows().size(Counts::default());
        let row_bytes = lowering.plan.graph.value(pair[1]).dtype.bytes(rows.columns as usize) as u64;
        let cut = slices(lowering.range(pair[1]), table_rows, row_bytes, lowering.capabilities)?;
        let sliced = cut.len() > 1;
        match groups.last_mut().filter(|_| open && !sliced) {
            Some(group) if group[0].terms.len() < MOST_TERMS => group[0].terms.push(Term { index, table: cut[0] }),
            _ => groups.push(cut.iter().map(|s| Step { terms: vec![Term { index, table: *s }], sliced }).collect()),
        }
        open = !sliced;
    }
    let result = lowering.range(node.result);
    let variant = lowering.select(&KERNEL, node)?;
    for (place, group) in groups.iter().enumerate() {
        for step in group {
            // Bindings without a term repeat the first: they must hold something, and nothing reads it.
            let term = |i: usize| *step.terms.get(i).unwrap_or(&step.terms[0]);
            let bindings = Bindings {
                counts: Range::whole(Resource::Counts),
                index_0: term(0).index,
                table_0: term(0).table.range,
                index_1: term(1).index,
                table_1: term(1).table.range,
                index_2: term(2).index,
                table_2: term(2).table.range,
                y: result,
            };
            let constants = Constants {
                terms: step.terms.len() as u32,
                accumulate: place > 0,
                sliced: step.sliced,
                vector: rows.columns.is_multiple_of(4),
            };
            let push = Push {
                rows_of: rows.rows_of(),
                rows: rows.fixed(),
                columns: rows.columns,
                first: term(0).table.first,
                slice_rows: term(0).table.rows,
            };
            lowering.push(Dispatch {
                label: node.name.clone(),
                variant,
                constants: constants.values(variant),
                bindings: bindings.into_array().to_vec(),
                push: bytemuck::bytes_of(&push).to_vec(),
                grid: [rows.tiles(ROWS_PER_GROUP), Extent::Fixed(1), Extent::Fixed(1)],
            })?;
        }
    }
    Ok(())
}

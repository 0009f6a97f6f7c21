//! Dispatches of `embedding_sum`: up to three tables per dispatch; for a table too large to bind, one dispatch per
//! slice.

use super::rows::{Rows, Slice, continued, slices};
use crate::Result;
use crate::backend::vulkan::generated::embedding_sum::{Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::Range;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::{Counts, EmbeddingSum};

/// Rows per workgroup.
const ROWS_PER_GROUP: u32 = 4;
/// Tables per dispatch: two bindings each, plus counts and result, make eight.
const MOST_TERMS: usize = 3;

/// An index and the table, or slice of a table, that it points into.
#[derive(Clone, Copy)]
struct Term {
    index: Range,
    table: Slice,
}

/// The work of one dispatch.
struct Pass {
    terms: Vec<Term>,
    sliced: bool,
    /// Whether it adds to what those before it wrote.
    accumulate: bool,
}

/// Adds the node's dispatches.
pub fn embedding_sum(to: &mut Lowering<'_>, _: &EmbeddingSum) -> Result<()> {
    let rows = Rows::of_each(&to.result().shape)?;
    let mut steps: Vec<Pass> = Vec::new();
    for place in (0..to.operands()).step_by(2) {
        let index = to.operand(place);
        let table_rows = to.shape(place + 1).rows().size(Counts::default());
        let row_bytes = to.dtype(place + 1).bytes(rows.columns as usize) as u64;
        let cut = slices(to.operand(place + 1), table_rows, row_bytes, to.capabilities)?;
        let sliced = cut.len() > 1;
        match steps.last_mut().filter(|step| !sliced && !step.sliced && step.terms.len() < MOST_TERMS) {
            Some(step) => step.terms.push(Term { index, table: cut[0] }),
            None => {
                let accumulate = !steps.is_empty();
                steps.extend(cut.iter().map(|s| Pass { terms: vec![Term { index, table: *s }], sliced, accumulate }));
            }
        }
    }
    let variant = to.select(&KERNEL)?;
    for Pass { terms, sliced, accumulate } in steps {
        // Bindings without a term repeat the first: they must not be empty, and no shader reads them.
        let [one, two, three] = [0, 1, 2].map(|i| *terms.get(i).unwrap_or(&terms[0]));
        let given = [
            ("index_0", one.index),
            ("table_0", one.table.range),
            ("index_1", two.index),
            ("table_1", two.table.range),
            ("index_2", three.index),
            ("table_2", three.table.range),
        ];
        let vector = rows.columns.is_multiple_of(4);
        let constants = Constants { terms: terms.len() as u32, accumulate, sliced, vector };
        let push = Push { first: one.table.first, slice_rows: one.table.rows, ..rows.into() };
        to.add(Build::new(variant, push, constants), "", &given, continued(rows.tiles(ROWS_PER_GROUP)))?;
    }
    Ok(())
}

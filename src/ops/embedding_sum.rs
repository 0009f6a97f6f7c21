//! Sum of rows looked up in several embedding tables.

use super::definition::{Origin, Term};
use super::signature::Role;
use super::{Counts, Dim, EmbeddingBackward, Operand, Operation, Shape, Shapes, Signature, SortIndices, Vjp};
use crate::Result;

/// `y[t] = sum_i table_i[index_i[t]]`, added in the operands' order.
///
/// Operands: `index_0 [...]`, `table_0 [V0, H]`, `index_1 [...]`, `table_1 [V1, H]`, ... Indices are u32 and less than
/// the number of rows of their table, which the caller has checked; all have the same shape. Result: `[..., H]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSum {}

impl Operation for EmbeddingSum {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[2, 3], &[7, 4], &[2, 3], &[5, 4]], &[1, 3]),
        ("{}", &[&[2, 3], &[7, 4]], &[1]),
        ("{}", &[&[], &[7, 4]], &[1]),
    ];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::index("index", "table"), Operand::new("table", Role::Table)]).in_groups();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (ids, columns) = (&of["index"], of["table"].columns());
        for pair in of.all().chunks_exact(2) {
            if pair[0] != ids {
                return Err(of.fault(format!("index has shape {}, expected {ids}", pair[0])));
            }
            if pair[1].columns() != columns || pair[1].0.len() != 2 {
                return Err(of.fault(format!("table has shape {}, expected [rows, {columns}]", pair[1])));
            }
        }
        let mut result = ids.clone();
        result.0.push(Dim::Fixed(columns));
        Ok(vec![result])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(operands.len());
        let places = match operands[0].0[..] {
            [rows] => rows,
            _ => Dim::Fixed(operands[0].fixed_axes("embedding_sum", "index").ok()?.into_iter().product()),
        };
        let g = Term::whole(Vjp::gradient(operands.len())).seen(Shape::matrix(places, operands[1].columns()));
        for (pair, table) in operands.chunks_exact(2).map(|pair| pair[1]).enumerate() {
            let Dim::Fixed(rows) = table.rows() else { return None };
            let index = Term::whole(Origin::Operand(2 * pair)).seen(Shape::vector(places));
            let [order, starts] = vjp.results_of(SortIndices { rows }, [index]);
            let by_table = vjp.step(EmbeddingBackward {}, [g.clone(), order, starts]);
            vjp.give(2 * pair + 1, by_table);
        }
        Some(vjp)
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        (operands.len() / 2) as u64 * (operands[0].elements(counts) * operands[1].columns()) as u64
    }
}

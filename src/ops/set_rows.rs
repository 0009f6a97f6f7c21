//! Rows written into a table.

use super::definition::{Origin, Term};
use super::{Cast, EmbeddingSum, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// Replaces row `index[i]` of `table` by row `i` of `x`; other rows are unchanged. The indices are distinct.
///
/// Operands: `table [N, D]`, `x [T, D]`, `index [T]`. Result: `table`, updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRows {}

const TABLE: Operand = Operand::rows("table").stored(DType::F32);

impl Operation for SetRows {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[5, 4], &[2, 4], &[2]], &[0, 1])];
    const SIGNATURE: Signature =
        Signature::of(&[TABLE, Operand::rows("x"), Operand::index("index", "table")]).gives(&[TABLE]).flops(0);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [_, columns] = of.axes("table")?[..] else { return Err(of.wrong("table", "[rows, columns]")) };
        if of["index"].0.len() != 1 {
            return Err(of.wrong("index", "one axis"));
        }
        of.expect("x", &Shape::matrix(of["index"].rows(), columns), "index, columns of table")?;
        Ok(vec![of["table"].clone()])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(3);
        let (g, index) = (Term::whole(Vjp::gradient(3)), Term::whole(Origin::Operand(2)));
        let by_x = vjp.step(EmbeddingSum {}, [index.clone(), g.clone()]);
        vjp.give(1, by_x);
        // The copy is updated in place of the gradient, which others may read.
        let copy = vjp.step(Cast::default(), [g]);
        let zeros = vjp.filled(0.0, operands[1].clone());
        let by_table = vjp.step(SetRows {}, [copy, zeros, index]);
        vjp.give(0, by_table);
        Some(vjp)
    }
}

//! Scores of texts that have a vector for each token.

use super::definition::{self, Origin, Step};
use super::{Counts, Matmul, MaxSum, Operand, Operation, Shape, Shapes, Signature, max_sum};
use crate::Result;
use crate::dtype::DType;

/// `y[i, j] = sum_t max_u queries[t] . documents[u]`, over the rows `t` of query `i` and `u` of document `j` (MaxSim, Khattab and
/// Zaharia 2020, ColBERT): rows `query_starts[i] .. query_starts[i + 1]`, and so on. -1e9 for a document without rows, as in
/// sentence-transformers, else 0 for a query without. NaN where a product is.
///
/// Operands: `queries [T, D]`, `documents [U, D]`, `query_starts [Q + 1]`, `document_starts [N + 1]`. Result: `[Q, N]`, float32.
/// The order of a sum depends on `D` and the rows of the query, never on other texts.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaxSim {}

impl Operation for MaxSim {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::CHOICE);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("queries").narrow(),
        Operand::rows("documents").narrow(),
        Operand::offsets_of_all("query_starts", "queries"),
        Operand::offsets_of_all("document_starts", "documents"),
    ])
    .gives(&[Operand::rows("y").stored(DType::F32)])
    .sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (queries, documents) = (&of["queries"], &of["documents"]);
        if queries.0.len() != 2 || documents.0.len() != 2 || queries.columns() != documents.columns() {
            return Err(of.wrong("documents", format!("[rows, {}] (queries {queries})", queries.columns())));
        }
        max_sum::parts(of, ["query_starts", "document_starts"])
    }

    /// What plans have whose numbers are the same everywhere; in others they are not replaced by the op, whose products of 16 bits
    /// need matrix cores.
    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let products = Step::new(Matmul { transpose_b: true, ..Matmul::default() }, &definition::given(0..2));
        Ok(vec![products, Step::new(MaxSum {}, &[Origin::Step(0), Origin::Operand(2), Origin::Operand(3)])])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[1].rows().size(counts) as u64
    }
}

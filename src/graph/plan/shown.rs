//! A plan as text.

use super::{Plan, Storage};
use crate::dtype::DType;

impl std::fmt::Display for Plan {
    /// Formats one line per step, which ends with its name, then the buffers, the outcomes of fusion and the numerics.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (step, node) in self.graph.nodes.iter().enumerate() {
            let operands: Vec<String> = node
                .operands
                .iter()
                .map(|v| format!("{}{}", self.graph.value(*v).name, self.graph.value(*v).shape))
                .collect();
            write!(f, "{step:3} {} ({}) ->", node.op.name(), operands.join(", "))?;
            for (place, id) in node.results.iter().enumerate() {
                let result = self.graph.value(*id);
                let dtype = Some(result.dtype).filter(|dtype| *dtype != DType::F32);
                let dtype = dtype.map_or_else(Default::default, DType::name);
                write!(f, "{} {dtype}{}", if place > 0 { "," } else { "" }, result.shape)?;
                match self.storage[id.0] {
                    Storage::Weight => {}
                    storage => write!(f, " {storage:?}")?,
                }
            }
            writeln!(f, " as {}", node.name)?;
        }
        if self.graph.needs_one_length() {
            let lengths: Vec<String> = self.graph.lengths.iter().map(|(rows, _)| rows.per_text().to_string()).collect();
            writeln!(f, "in groups of texts of one length {}", lengths.join(" and "))?;
        }
        for (i, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "buffer {i}: [{}] of {} bytes", buffer.rows, buffer.row_bytes)?;
        }
        for outcome in &self.outcomes {
            writeln!(f, "{outcome}")?;
        }
        writeln!(f, "numerics: {}", self.numerics.name())
    }
}

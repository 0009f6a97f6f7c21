//! How a node's values are stored.

use super::Lowering;
use crate::backend::Narrow;
use crate::dtype::DType;
use crate::graph::{Value, ValueId};
use crate::{Error, Result};

impl<'a> Lowering<'a> {
    /// Rejects a 16-bit build that is not on matrix cores, where matrix cores are required.
    ///
    /// # Errors
    /// `Unsupported`
    pub fn check_narrow(&self, stored: DType, on_matrix_cores: bool) -> Result<()> {
        if !on_matrix_cores && stored.is_narrow() && self.narrow == Narrow::OnMatrixCores {
            return Err(self.unsupported(format!("{} has no matrix cores that take it", self.capabilities.name)));
        }
        Ok(())
    }

    /// The operands and results that are stored in 16 bits.
    fn narrow_values(&self) -> impl Iterator<Item = &'a Value> {
        let values = self.node.operands.iter().chain(&self.node.results).map(|id| self.plan.graph.value(*id));
        values.filter(|value| value.dtype.is_narrow())
    }

    /// Refuses 16-bit rows that cannot be read four elements at a time.
    ///
    /// # Errors
    /// `Unsupported` naming the value.
    pub fn whole_quads(&self) -> Result<()> {
        match self.narrow_values().find(|value| !value.shape.columns().is_multiple_of(4)) {
            None => Ok(()),
            Some(value) => Err(Error::Unsupported {
                what: format!("{}, rows of {} elements", value.name, value.shape.columns()),
                reason: format!("{} takes multiples of four", value.dtype.name()),
            }),
        }
    }

    /// The stored type of the node's values: a 16-bit type if any operand or result has one.
    ///
    /// # Errors
    /// `Unsupported` for 16-bit rows that cannot be read four elements at a time, and where only some of the operands
    /// and results that the kernel supports in 16 bits are stored so.
    pub fn stored(&self) -> Result<DType> {
        self.whole_quads()?;
        self.stored_at_any_width()
    }

    /// The same for a kernel that reads rows in 16 bits wherever they start.
    ///
    /// # Errors
    /// `Unsupported` where only some of the operands and results are stored in 16 bits.
    pub fn stored_at_any_width(&self) -> Result<DType> {
        let (op, results) = (self.op(), &self.node.results);
        let value = |id: &ValueId| self.plan.graph.value(*id);
        let stored = self.narrow_values().last().map_or(DType::F32, |value| value.dtype);
        let results =
            results.iter().zip(op.results()).filter(|(_, result)| result.narrow && !result.wide).map(|(id, _)| id);
        let operands = self.node.operands.iter().enumerate().filter(|(place, _)| op.operand(*place).narrow);
        let mut values = operands.map(|(_, id)| id).chain(results).map(value);
        match values.find(|value| stored.is_narrow() && value.dtype != stored) {
            None => Ok(stored),
            Some(value) => {
                let (name, found) = (&value.name, value.dtype.name());
                Err(self.unsupported(format!("{name} is {found}, expected {}", stored.name())))
            }
        }
    }
}

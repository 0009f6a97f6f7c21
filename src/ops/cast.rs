//! Conversion between element types.

use super::signature::Role;
use super::{Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::dtype::DType;
use crate::{Error, Result};

/// Conversion to another element type. Operands: `x` (float32, float16, in a program bfloat16, or int32 to be converted to
/// float32). A plan may count rows.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cast {
    /// Element type of the result, float32, float16, or in a program bfloat16 (round to nearest, ties to even; overflow
    /// becomes infinity); default float32.
    pub to: DType,
}

impl Cast {
    /// The error for an operand of a type that cannot be converted.
    pub fn unsupported(&self, from: DType) -> Error {
        Error::unsupported(format!("cast to {}", self.to.name()), format!("x is {}", from.name()))
    }
}

impl Operation for Cast {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[(r#"{"to": "float32"}"#, &[&[2, 3]], &[0]), (r#"{"to": "float16"}"#, &[&[2, 3]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::new("x", Role::Any).narrow()]).flops(0);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if !self.to.is_float() {
            return Err(
                of.fault(format!("to is {:?}, expected \"float32\", \"float16\" or \"bfloat16\"", self.to.name()))
            );
        }
        Ok(vec![of["x"].clone()])
    }

    fn result_type(&self, _operands: &[DType]) -> DType {
        self.to
    }

    /// Gradients are float32.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        if self.to != DType::F32 {
            return Vjp::single(operands.len(), Cast::default(), 0..0);
        }
        Some(Vjp::passed(operands.len()))
    }
}

//! `y = act(x W^T + b) + residual`.

use super::definition::{self, Origin, Term};
use super::{Activation, ActivationKind, BinaryKind, Counts, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;

/// Whether a residual is added to the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residual {
    /// No residual operand.
    #[default]
    None,
    /// The last operand, of the result's shape, is added after the activation.
    Added,
}

/// Matrix product with its epilogue.
///
/// `y[m, n] = act(sum_k x[m, k] * weight[n, k] + bias[n]) + residual[m, n]`
///
/// Operands: `x [..., K]`, `weight [N, K]`, then `bias [N]` if `bias`, then `residual [..., N]` if `residual` is
/// `Added`.
/// The sum runs over `k` in an order fixed by `(N, K, dtype, device)`, never by `M`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Linear {
    /// Whether there is a bias operand.
    pub bias: bool,
    /// Applied to the biased product; `None` for the identity.
    pub activation: Option<ActivationKind>,
    /// Whether there is a residual operand.
    pub residual: Residual,
}

impl Linear {
    /// The derivative of a product, an activation and a sum one after the other.
    fn apart(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(operands.len());
        let product = Linear { bias: self.bias, ..Linear::default() };
        let mut y = vjp.step(product, definition::given(0..2 + usize::from(self.bias)).into_iter().map(Term::whole));
        if let Some(kind) = self.activation {
            y = vjp.step(Activation::from(kind), [y]);
        }
        if self.residual == Residual::Added {
            vjp.binary(BinaryKind::Add, y, Term::whole(Origin::Operand(operands.len() - 1)));
        }
        vjp.chained(operands)
    }
}

impl Operation for Linear {
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[2, 3, 4], &[5, 4]], &[0, 1]),
        (r#"{"bias": true}"#, &[&[4], &[5, 4], &[5]], &[0, 1, 2]),
        (r#"{"activation": "tanh"}"#, &[&[2, 3, 4], &[5, 4]], &[0, 1]),
        (
            r#"{"bias": true, "activation": "tanh", "residual": "added"}"#,
            &[&[2, 3, 4], &[5, 4], &[5], &[2, 3, 5]],
            &[0, 1, 2, 3],
        ),
        (r#"{"residual": "added"}"#, &[&[3, 4], &[5, 4], &[3, 5]], &[0, 1, 2]),
    ];
    fn signature(&self) -> Signature {
        const X: Operand = Operand::rows("x").narrow();
        const WEIGHT: Operand = Operand::matrix("weight").narrow();
        const BIAS: Operand = Operand::vector("bias").by_attribute();
        const RESIDUAL: Operand = Operand::rows("residual").narrow().by_attribute();
        Signature::of(match (self.bias, self.residual) {
            (false, Residual::None) => &[X, WEIGHT],
            (true, Residual::None) => &[X, WEIGHT, BIAS],
            (false, Residual::Added) => &[X, WEIGHT, RESIDUAL],
            (true, Residual::Added) => &[X, WEIGHT, BIAS, RESIDUAL],
        })
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if let Some(kind) = self.activation
            && !kind.ends_linear()
        {
            return Err(of.fault(format!("activation is {kind:?}, expected a kind without parameters up to QuickGelu")));
        }
        let (x, weight) = (&of["x"], &of["weight"]);
        let (n, k) = (weight.rows().size(Counts::default()), weight.columns());
        if x.columns() != k {
            return Err(of.wrong("x", format!("last axis {k} (weight {weight})")));
        }
        let result = x.with_columns(n);
        of.expect("bias", &Shape::fixed(&[n]), "rows of weight")?;
        of.expect("residual", &result, "that of the result")?;
        Ok(vec![result])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[1].rows().size(counts) as u64
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        if self.activation.is_some() || self.residual == Residual::Added {
            return self.apart(operands);
        }
        let mut vjp = Vjp::new(operands.len());
        let given = [0, 1].map(|place| Term::whole(Origin::Operand(place)));
        vjp.give_product([operands[0], operands[1]], given, [0, 1], self.bias.then_some(2))?;
        Some(vjp)
    }
}

//! `y = act(x W^T + b) + residual`.

use super::definition::{self, Origin, Pattern, SUM, Sought, Step, Term};
use super::{
    Activation, ActivationKind, Binary, BinaryKind, Counts, Op, Operand, Operation, Shape, Shapes, Signature, Vjp,
};
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
/// The sum runs over `k` in an order fixed by `(N, K, dtype, device)`, never by `M`. Of operands in 16 bits a graph may hold the
/// result in float32, as it was before it is rounded.
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

/// What a product ends with.
fn ends(product: &mut Op) -> Option<(&mut Option<ActivationKind>, &mut Residual)> {
    match product {
        Op::Linear(op) => Some((&mut op.activation, &mut op.residual)),
        Op::QuantizedLinear(op) => Some((&mut op.activation, &mut op.residual)),
        _ => None,
    }
}

/// The definition of a product with this number of operands: the product without the last of what it ends with, then
/// this; none of a product that ends with nothing.
pub(super) fn unfused(mut product: Op, operands: usize) -> Vec<Step> {
    let Some((activation, residual)) = ends(&mut product) else { return Vec::new() };
    let (given, last) = if std::mem::take(residual) == Residual::Added {
        let given = operands.saturating_sub(1);
        (given, Step::new(Binary::from(BinaryKind::Add), &[Origin::Step(0), Origin::Operand(given)]))
    } else if let Some(kind) = activation.take() {
        (operands, Step::new(Activation::from(kind), &[Origin::Step(0)]))
    } else {
        return Vec::new();
    };
    vec![Step::new(product, &definition::given(0..given)), last]
}

impl Operation for Linear {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
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
        const Y: Operand = Operand::rows("y").narrow().wide();
        let operands: &'static [Operand] = match (self.bias, self.residual) {
            (false, Residual::None) => &[X, WEIGHT],
            (true, Residual::None) => &[X, WEIGHT, BIAS],
            (false, Residual::Added) => &[X, WEIGHT, RESIDUAL],
            (true, Residual::Added) => &[X, WEIGHT, BIAS, RESIDUAL],
        };
        Signature::of(operands).gives(&[Y])
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.check_end(self.activation)?;
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

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        Ok(unfused(self.clone().into(), operands.len()))
    }

    /// An activation or a sum after a product of either kind.
    fn sought() -> Option<Sought> {
        const PRODUCT: Pattern = Pattern::new("linear", |op| match op {
            Op::Linear(op) => op.residual == Residual::None,
            Op::QuantizedLinear(op) => op.residual == Residual::None,
            _ => false,
        });
        Some(Sought {
            pass: "linear_epilogue",
            priority: 10,
            tree: Pattern::new("an epilogue", |op| matches!(op, Op::Activation(_)) || (SUM.fits)(op)).of(&[PRODUCT]),
            op: |ops| {
                let mut product = ops[0].clone();
                let (activation, residual) = ends(&mut product)?;
                match ops[1] {
                    Op::Activation(op) => *activation = Some(op.kind),
                    _ => *residual = Residual::Added,
                }
                Some(product)
            },
        })
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[1].rows().size(counts) as u64
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        if self.activation.is_some() || self.residual == Residual::Added {
            return Vjp::of_steps(self.definition(operands).ok()?, operands);
        }
        let mut vjp = Vjp::new(operands.len());
        let given = [0, 1].map(|place| Term::whole(Origin::Operand(place)));
        vjp.give_product([operands[0], operands[1]], given, [0, 1], self.bias.then_some(2))?;
        Some(vjp)
    }
}

//! Sums over the rows next to each token's, within its text.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[t, c] = sum_j weight[t, c / (C / H), j] x[t + j - before, c]`, `j` in order from zero, over the rows of `t`'s text alone: text
/// `i` has rows `offsets[i] .. offsets[i + 1]`.
///
/// Operands: `x [T, C]`, or other rows that a batch counts; `weight [T, H, K]`, or `[1, H, K]` for the same weights in every
/// row, where `H` divides `C`: of each of `H` blocks of columns, for `H = C` a depthwise convolution (LFM2, ConvBERT), for
/// weights that depend on the row a dynamic one (Wu et al. 2019); `offsets [B + 1]`, from 0 to `T`. Result: `x`'s shape. Same
/// bits everywhere: products are rounded before they are added.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConvolution {
    /// Rows before a token's own that meet the first weights, less than `K`: `K - 1` for a causal convolution,
    /// `(K - 1) / 2` for one around the row.
    pub before: usize,
}

impl TokenConvolution {
    /// `H` and `K`, by the shape of the weight.
    pub fn sizes(weight: &Shape) -> [usize; 2] {
        [weight.row_elements() / weight.columns().max(1), weight.columns()]
    }
}

impl Operation for TokenConvolution {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some("no kernel adds up the gradients of neighbouring rows");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"before": 2}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow().counted(Dim::Tokens),
        Operand::rows("weight").counted(Dim::Tokens),
        Operand::offsets_of_all("offsets", "x").counted(Dim::Boundaries),
    ]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (x, weight) = (&of["x"], &of["weight"]);
        if !matches!(x.rows(), Dim::Tokens | Dim::Counted(_)) || x.0.len() != 2 {
            return Err(of.wrong("x", "[T, columns]"));
        }
        let of_rows = [Dim::Fixed(1), x.rows()].contains(&weight.rows());
        let [_, Dim::Fixed(heads @ 1..), Dim::Fixed(taps)] = weight.0[..] else {
            return Err(of.wrong("weight", format!("[1 or {}, blocks of columns, weights]", x.rows())));
        };
        if !of_rows || !x.columns().is_multiple_of(heads) {
            let expected = format!("[1 or {}, a divisor of {}, weights]", x.rows(), x.columns());
            return Err(of.wrong("weight", expected));
        }
        if self.before >= taps {
            return Err(of.fault(format!("before is {}, expected less than {taps}, the weights of a sum", self.before)));
        }
        of.expect("offsets", &Shape::vector(Dim::Boundaries), "one more than there are texts")?;
        Ok(vec![x.clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * (operands[0].elements(counts) * operands[1].columns()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;

    #[test]
    fn weights_of_every_row_or_of_all_and_what_does_not_fit() {
        let tokens = |axes: &[usize]| Shape([&[Dim::Tokens][..], &Shape::fixed(axes).0].concat());
        let offsets = Shape::vector(Dim::Boundaries);
        let found =
            |x: &Shape, weight: Shape, before| Op::from(TokenConvolution { before }).infer(&[x, &weight, &offsets]);
        let x = tokens(&[6]);
        for weight in [Shape::fixed(&[1, 6, 3]), tokens(&[2, 3])] {
            assert_eq!(found(&x, weight, 2).unwrap(), std::slice::from_ref(&x));
        }
        for (weight, before, expected) in [
            (Shape::fixed(&[1, 4, 3]), 0, "weight has shape [1, 4, 3], expected [1 or T, a divisor of 6, weights]"),
            (Shape::fixed(&[2, 6, 3]), 0, "weight has shape [2, 6, 3], expected [1 or T, a divisor of 6, weights]"),
            (Shape::fixed(&[1, 0, 3]), 0, "weight has shape [1, 0, 3], expected [1 or T, blocks of columns, weights]"),
            (Shape::fixed(&[6, 3]), 0, "weight has shape [6, 3], expected [1 or T, blocks of columns, weights]"),
            (Shape::fixed(&[1, 6, 3]), 3, "before is 3, expected less than 3, the weights of a sum"),
        ] {
            let error = found(&x, weight, before).unwrap_err().to_string();
            assert_eq!(error, format!("token_convolution: {expected}"));
        }
        assert!(found(&Shape::fixed(&[4, 6]), Shape::fixed(&[1, 6, 3]), 0).is_err());
    }
}

//! What changes attention scores between the products and the softmax: a soft cap, biases by distance, a window.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[b, h, i, j] = cap(scores[b, h, i, j]) + bias[h, clamp(j - i, -R, R) + R]` where query `i` may see key `j`, else
/// minus infinity; `cap(s) = soft_cap tanh(s / soft_cap)`, or `s` if `soft_cap` is 0.
///
/// Operands: `scores [B, H, Sq, Sk]`, then `bias [H, 2 R + 1]` if there is one. The attributes are those of `attention`,
/// with positions counted from the first query and key.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionBias {
    /// Bound that scores approach smoothly; 0 for none.
    pub soft_cap: f32,
    /// Largest distance at which a query sees keys; 0 for any distance.
    pub window: u32,
    /// With a window: the number of leading positions that see all keys and that all queries see.
    pub global_tokens: u32,
}

impl AttentionBias {
    /// Whether query `query` may see key `key`.
    pub fn sees(&self, query: usize, key: usize) -> bool {
        self.window == 0 || query.abs_diff(key) <= self.window as usize || query.min(key) < self.global_tokens as usize
    }
}

impl Operation for AttentionBias {
    const EVERYWHERE: super::Coverage = super::Coverage::OF_PARTS;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::PARTS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("scores"), Operand::rows("bias").optional()]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [_, heads @ Dim::Fixed(_), _, _] = of["scores"].0[..] else {
            return Err(of.wrong("scores", "[B, H, Sq, Sk]"));
        };
        if !(self.soft_cap >= 0.0 && self.soft_cap.is_finite()) {
            return Err(of.fault(format!("soft_cap is {}, expected a finite number from 0", self.soft_cap)));
        }
        let fits =
            |bias: &Shape| matches!(bias.0[..], [rows, Dim::Fixed(columns)] if rows == heads && columns % 2 == 1);
        if of.get("bias").is_some_and(|bias| !fits(bias)) {
            return Err(of.wrong("bias", format!("[{heads}, an odd number]")));
        }
        Ok(vec![of["scores"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        let each = operands.len() as u64 - 1 + if self.soft_cap > 0.0 { 3 } else { 0 };
        each * operands[0].elements(counts) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Attention, Op};

    #[test]
    fn a_query_sees_what_it_sees_in_the_fused_op() {
        for (window, global_tokens) in [(0, 0), (0, 3), (2, 0), (3, 2), (1, 30), (u32::MAX, 1)] {
            let op = AttentionBias { window, global_tokens, ..AttentionBias::default() };
            let fused = Attention { window, global_tokens, ..Attention::default() };
            for (query, key) in (0..9).flat_map(|query| (0..7).map(move |key| (query, key))) {
                let sight = fused.sight(fused.place(query, 9, 7), 7);
                let seen = key < sight.leading || sight.near.contains(&key);
                assert_eq!(op.sees(query, key), seen, "{op:?} {query} {key}");
            }
        }
    }

    #[test]
    fn operands_are_checked_by_name() {
        let infer = |soft_cap, shapes: &[&[usize]]| {
            let shapes: Vec<Shape> = shapes.iter().map(|axes| Shape::fixed(axes)).collect();
            let op = Op::from(AttentionBias { soft_cap, ..AttentionBias::default() });
            op.infer(&shapes.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        assert_eq!(infer(0.0, &[&[2, 3, 4, 5], &[3, 7]]), Ok(vec![Shape::fixed(&[2, 3, 4, 5])]));
        for (soft_cap, shapes, part) in [
            (0.0, &[&[2, 3, 4][..]][..], "scores has shape [2, 3, 4], expected [B, H, Sq, Sk]"),
            (0.0, &[&[2, 3, 4, 5], &[3, 6]], "bias has shape [3, 6], expected [3, an odd number]"),
            (0.0, &[&[2, 3, 4, 5], &[6, 7]], "bias has shape [6, 7]"),
            (-1.0, &[&[2, 3, 4, 5]], "soft_cap is -1"),
            (f32::INFINITY, &[&[2, 3, 4, 5]], "soft_cap is inf"),
        ] {
            assert!(infer(soft_cap, shapes).unwrap_err().contains(part), "{part}");
        }
    }
}

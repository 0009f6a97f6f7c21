//! The factor on the loss of a step in float16.

use serde::{Deserialize, Serialize};

/// Steps without a change after which the factor doubles, and the one at first (torch's `GradScaler`).
const STEADY: u64 = 2000;
const FIRST: f32 = 65536.0;

/// The factor on the loss, so that small gradients are not zero in float16 (Micikevicius et al. 2018). A step with a gradient
/// that is not finite changes nothing and halves it; after 2000 other steps it doubles.
///
/// ```
/// use grilly::train::LossScale;
/// let mut scale = LossScale::default();
/// scale.after(false);
/// assert_eq!((scale.factor, scale.skipped), (32768.0, 1));
/// (0..2000).for_each(|_| scale.after(true));
/// assert_eq!((scale.factor, scale.steady), (65536.0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossScale {
    /// A power of two from 1.
    pub factor: f32,
    /// Steps since it changed.
    pub steady: u64,
    /// Steps that changed nothing, in all.
    pub skipped: u64,
}

impl Default for LossScale {
    fn default() -> Self {
        LossScale { factor: FIRST, steady: 0, skipped: 0 }
    }
}

impl LossScale {
    /// Whether it can be halved.
    pub fn can_fall(&self) -> bool {
        self.factor > 1.0
    }

    /// Takes note of a step, and of whether its gradients were finite.
    pub fn after(&mut self, finite: bool) {
        if !finite {
            *self = LossScale { factor: self.factor / 2.0, steady: 0, skipped: self.skipped + 1 };
            return;
        }
        self.steady += 1;
        if self.steady == STEADY && self.factor < f32::MAX / 2.0 {
            *self = LossScale { factor: self.factor * 2.0, steady: 0, ..*self };
        }
    }
}

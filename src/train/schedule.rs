//! Schedules: the learning rate of each step, computed in float64 from its number alone.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The factor on the learning rate in each step, counted from 0. In JSON `{"kind": "cosine", "warmup": 100}`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// 1.
    #[default]
    Constant,
    /// `(step + 1) / warmup` in the first `warmup` steps, then 1.
    Linear {
        /// Steps until the whole rate.
        warmup: u64,
    },
    /// A linear warm-up, then half a cosine from 1 down to `least` in the last step (Loshchilov and Hutter 2017).
    Cosine {
        /// Steps until the whole rate; default 0.
        #[serde(default)]
        warmup: u64,
        /// The factor at the end; default 0.
        #[serde(default)]
        least: f64,
    },
    /// `factor^floor(step / every)`.
    Step {
        /// Steps between two reductions.
        every: u64,
        /// Factor of each; default 0.1.
        #[serde(default = "tenth")]
        factor: f64,
    },
    /// Half a cosine from `1 / start` up to 1 in the first `rise` of the steps, then down to `1 / (start * end)`
    /// (Smith and Topin 2018), as torch's `OneCycleLR`.
    OneCycle {
        /// Share of the steps in which the rate rises; default 0.3.
        #[serde(default = "three_tenths")]
        rise: f64,
        /// Divisor of the rate in the first step; default 25.
        #[serde(default = "twenty_five")]
        start: f64,
        /// Divisor from the first step's rate to the last one's; default 10000.
        #[serde(default = "ten_thousand")]
        end: f64,
    },
}

fn tenth() -> f64 {
    0.1
}

fn three_tenths() -> f64 {
    0.3
}

fn twenty_five() -> f64 {
    25.0
}

fn ten_thousand() -> f64 {
    1e4
}

impl Schedule {
    /// The factor of step `step` of `steps`.
    ///
    /// ```
    /// use grilly::train::Schedule;
    /// let schedule = Schedule::Linear { warmup: 4 };
    /// assert_eq!([0, 1, 3, 9].map(|step| schedule.factor(step, 10)), [0.25, 0.5, 1.0, 1.0]);
    /// ```
    pub fn factor(&self, step: u64, steps: u64) -> f64 {
        let warm = |warmup: u64| (step + 1) as f64 / warmup as f64;
        // The last step has the end of a curve.
        let last = steps.saturating_sub(1).max(1) as f64;
        match *self {
            Schedule::Constant => 1.0,
            Schedule::Linear { warmup } | Schedule::Cosine { warmup, .. } if step < warmup => warm(warmup),
            Schedule::Linear { .. } => 1.0,
            Schedule::Cosine { warmup, least } => {
                let done = (step - warmup) as f64 / (last - warmup as f64).max(1.0);
                between(1.0, least, done)
            }
            Schedule::Step { every, factor } => power(factor, step / every.max(1)),
            Schedule::OneCycle { rise, start, end } => {
                let top = rise * steps as f64 - 1.0;
                let step = step as f64;
                if step <= top {
                    between(1.0 / start, 1.0, step / top.max(1.0))
                } else {
                    between(1.0, 1.0 / (start * end), (step - top.max(0.0)) / (last - top.max(0.0)).max(1.0))
                }
            }
        }
    }

    /// Checks that the number of steps is known if the factor depends on it.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not.
    pub(super) fn check_length(&self, steps: Option<u64>) -> Result<()> {
        match self {
            Schedule::Cosine { .. } | Schedule::OneCycle { .. } if steps.is_none() => {
                Err(Error::InvalidArgument("the schedule depends on the number of steps; set steps".into()))
            }
            _ => Ok(()),
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// `InvalidArgument` naming the first that is out of range.
    pub fn check(&self) -> Result<()> {
        let need = |name: &str, found: f64, right: bool, expected: &str| {
            super::need(&format!("schedule: {name}"), &found, right, expected)
        };
        match *self {
            Schedule::Constant | Schedule::Linear { .. } => Ok(()),
            Schedule::Cosine { least, .. } => {
                need("least", least, (0.0..=1.0).contains(&least), "a number from 0 to 1")
            }
            Schedule::Step { every, factor } => {
                need("every", every as f64, every > 0, "at least 1")?;
                need("factor", factor, factor > 0.0 && factor.is_finite(), "a positive number")
            }
            Schedule::OneCycle { rise, start, end } => {
                need("rise", rise, (0.0..=1.0).contains(&rise), "a number from 0 to 1")?;
                need("start", start, start >= 1.0 && start.is_finite(), "a number from 1")?;
                need("end", end, end >= 1.0 && end.is_finite(), "a number from 1")
            }
        }
    }
}

/// Along half a cosine, from `from` where `share` is 0 to `to` where it is 1.
fn between(from: f64, to: f64, share: f64) -> f64 {
    to + (from - to) * (1.0 + cosine_of_half_turns(share.clamp(0.0, 1.0))) / 2.0
}

/// `cos(pi x)` for `x` from 0 to 1, of additions and products alone, so that it has the same bits on every platform.
fn cosine_of_half_turns(x: f64) -> f64 {
    let y = std::f64::consts::FRAC_PI_2 * (1.0 - 2.0 * x);
    // The sine's series, to y^23 / 23!.
    let terms = (1..=11).rev().fold(1.0, |sum, i| 1.0 - sum * y * y / f64::from(2 * i * (2 * i + 1)));
    y * terms
}

/// `base^exponent` by squaring, with the same bits on every platform.
pub(super) fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            result *= square;
        }
        square *= square;
        rest /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-15 * expected.abs().max(1.0), "{found} {expected}");
    }

    #[test]
    fn cosine_and_power_are_those_of_the_library() {
        for i in 0..=1000 {
            let x = f64::from(i) / 1000.0;
            close(cosine_of_half_turns(x), (std::f64::consts::PI * x).cos());
        }
        for exponent in [0, 1, 2, 7, 1000] {
            let expected = 0.999f64.powf(exponent as f64);
            assert!((power(0.999, exponent) / expected - 1.0).abs() < 1e-13);
        }
    }

    #[test]
    fn curves_have_their_ends() {
        let cosine = Schedule::Cosine { warmup: 10, least: 0.1 };
        close(cosine.factor(0, 110), 0.1);
        close(cosine.factor(9, 110), 1.0);
        close(cosine.factor(10, 110), 1.0);
        close(cosine.factor(109, 110), 0.1);
        assert!((10..109).all(|step| cosine.factor(step, 110) > cosine.factor(step + 1, 110)));
        let step = Schedule::Step { every: 3, factor: 0.5 };
        assert_eq!([0, 2, 3, 8].map(|at| step.factor(at, 9)), [1.0, 1.0, 0.5, 0.25]);
    }

    /// Those of `OneCycleLR(max_lr=1, total_steps=10)` in torch 2.15.
    #[test]
    fn one_cycle_is_torchs() {
        let schedule = Schedule::OneCycle { rise: 0.3, start: 25.0, end: 1e4 };
        let torch = [
            0.040000000000000036,
            0.52,
            1.0,
            0.9504846320134737,
            0.8117456539497631,
            0.6112620219362893,
            0.38874197806371075,
            0.18825834605023697,
            0.049519367986526286,
            4e-06,
        ];
        for (step, expected) in torch.into_iter().enumerate() {
            let found = schedule.factor(step as u64, 10);
            assert!((found - expected).abs() < 1e-12, "{step}: {found} {expected}");
        }
    }

    #[test]
    fn json_has_defaults_and_numbers_are_checked() {
        let read = |text: &str| serde_json::from_str::<Schedule>(text);
        assert_eq!(read(r#"{"kind": "cosine"}"#).unwrap(), Schedule::Cosine { warmup: 0, least: 0.0 });
        assert!(read(r#"{"kind": "cosine", "warm": 3}"#).is_err() && read(r#"{"kind": "sine"}"#).is_err());
        for (text, part) in [
            (r#"{"kind": "cosine", "least": 2}"#, "least is 2"),
            (r#"{"kind": "step", "every": 0}"#, "every is 0"),
            (r#"{"kind": "step", "every": 2, "factor": 0}"#, "factor is 0"),
            (r#"{"kind": "one_cycle", "rise": -1}"#, "rise is -1"),
            (r#"{"kind": "one_cycle", "end": 0.5}"#, "end is 0.5"),
        ] {
            let error = read(text).unwrap().check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}

//! What the numbers of a plan mean: those of the device that runs it, or the same on every device.

pub mod portable;

use std::str::FromStr;

use crate::{Error, Result};

/// The meaning of a plan's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Numerics {
    /// Sums in the order that suits a device: its results have the same bits in any batch, other devices' differ in the last.
    #[default]
    Run,
    /// Products as exact sums of integers, all else in float32 operations of one meaning: the same bits on every device.
    Everywhere,
}

impl Numerics {
    /// The version of the numbers of [`Numerics::Everywhere`]; another has other bits.
    pub const VERSION: u32 = 1;

    /// `"run"`, or `"everywhere-1"`, with the version.
    ///
    /// ```
    /// use grilly::numerics::Numerics;
    /// let numerics: Numerics = "everywhere".parse().unwrap();
    /// assert_eq!((numerics, numerics.name()), (Numerics::Everywhere, "everywhere-1"));
    /// assert_eq!(Numerics::default().name(), "run");
    /// assert!("everywhere-2".parse::<Numerics>().is_err());
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Numerics::Run => "run",
            Numerics::Everywhere => "everywhere-1",
        }
    }

    /// Refuses training, of which `what` is a part, where numbers are the same everywhere.
    ///
    /// # Errors
    /// `Unsupported` naming `what`.
    ///
    /// ```
    /// use grilly::numerics::Numerics;
    /// assert!(Numerics::Run.check_trains("a step").is_ok());
    /// let refused = Numerics::Everywhere.check_trains("a step").unwrap_err().to_string();
    /// assert!(refused.starts_with("a step: numerics=\"everywhere\": gradients, losses"));
    /// ```
    pub fn check_trains(self, what: &str) -> Result<()> {
        if self == Numerics::Run {
            return Ok(());
        }
        Err(Self::refused(what, OF_TRAINING))
    }

    /// The error for what [`Numerics::Everywhere`] does not cover.
    pub(crate) fn refused(what: &str, reason: &str) -> Error {
        Error::unsupported(what, format!("numerics=\"everywhere\": {reason}"))
    }
}

/// Why the mode refuses what does not belong to inference.
const OF_TRAINING: &str = "gradients, losses, optimisers, dropout and training: the mode covers inference";

impl FromStr for Numerics {
    type Err = Error;

    /// `"everywhere"` is its newest version.
    fn from_str(text: &str) -> Result<Self> {
        const NAMES: [(&str, Numerics); 3] =
            [("run", Numerics::Run), ("everywhere", Numerics::Everywhere), ("everywhere-1", Numerics::Everywhere)];
        let version = text.strip_prefix("everywhere-").filter(|version| version.parse::<u32>().is_ok());
        match version.filter(|version| *version != Self::VERSION.to_string()) {
            Some(_) => Err(Error::unsupported(
                format!("numerics={text:?}"),
                format!("this build of grilly has version {} of \"everywhere\" alone", Self::VERSION),
            )),
            None => crate::error::named("numerics", text, NAMES),
        }
    }
}

impl TryFrom<String> for Numerics {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Numerics> for String {
    fn from(numerics: Numerics) -> Self {
        numerics.name().to_owned()
    }
}

/// `+0` below 2^-100, which also numbers are that some devices flush to 0; else `x`: how [`Numerics::Everywhere`] reads floats.
///
/// ```
/// use grilly::numerics::settle;
/// assert_eq!([1.5, -1e-30, -1e-31, f32::INFINITY].map(settle), [1.5, -1e-30, 0.0, f32::INFINITY]);
/// ```
#[inline(always)]
pub fn settle(x: f32) -> f32 {
    if x.to_bits() & 0x7fff_ffff < 0x0d80_0000 { 0.0 } else { x }
}

/// What [`Numerics::Everywhere`] makes of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Its results have the same bits on every device.
    Promised,
    /// Plans have the steps of its definition in its place.
    Steps,
    /// No plan has it, for this reason.
    Refused(&'static str),
}

impl Coverage {
    /// The reason for ops that do not belong to inference.
    pub const OF_TRAINING: Coverage = Coverage::Refused(OF_TRAINING);
    /// The reason for the parts of attention.
    pub const OF_PARTS: Coverage = Coverage::Refused("a part of attention: the mode covers attention as a whole");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_a_version() {
        for (name, numerics) in
            [("run", Numerics::Run), ("everywhere", Numerics::Everywhere), ("everywhere-1", Numerics::Everywhere)]
        {
            assert_eq!(name.parse::<Numerics>().unwrap(), numerics);
            let read: Numerics = serde_json::from_value(name.into()).unwrap();
            assert_eq!(read, numerics);
        }
        assert_eq!(serde_json::to_value(Numerics::Everywhere).unwrap(), "everywhere-1");
        assert!(Numerics::Everywhere.name().ends_with(&format!("-{}", Numerics::VERSION)));
    }

    #[test]
    fn other_names_and_versions_are_errors_that_say_which_exist() {
        for (name, expected) in [
            ("everywhere-2", "numerics=\"everywhere-2\": this build of grilly has version 1 of \"everywhere\" alone"),
            ("everywhere-0", "numerics=\"everywhere-0\": this build of grilly has version 1 of \"everywhere\" alone"),
            ("everywhere-01", "numerics=\"everywhere-01\": this build of grilly has version 1 of \"everywhere\" alone"),
            ("everywhere-", "numerics is \"everywhere-\", expected \"run\", \"everywhere\" or \"everywhere-1\""),
            ("Run", "numerics is \"Run\", expected \"run\", \"everywhere\" or \"everywhere-1\""),
            ("", "numerics is \"\", expected \"run\", \"everywhere\" or \"everywhere-1\""),
        ] {
            let error = name.parse::<Numerics>().unwrap_err();
            assert_eq!(error.to_string(), expected);
            let of_version = name.len() > "everywhere-".len();
            assert_eq!(matches!(error, Error::Unsupported { .. }), of_version, "{name}");
        }
    }
}

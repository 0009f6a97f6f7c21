//! WGSL, by naga.

use std::error::Error;

use naga::back::wgsl::{WriterFlags, write_string};
use naga::compact::{KeepUnused, compact};
use naga::front::spv::{Frontend, Options};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// Reads of a workgroup's memory on which barriers depend, as naga writes them, and as WGSL takes their values to be the same in
/// all invocations. They are atomic, so naga does not read them into other expressions.
const AGREED: [&str; 2] = ["atomicLoad((&agreed_", "workgroupUniformLoad((&agreed_"];

/// The text of a module whose functions get built-in values as arguments.
///
/// # Errors
/// What naga does not support, or WGSL does not have.
pub(super) fn wgsl(words: &[u32]) -> Result<String, String> {
    let options = Options { adjust_coordinate_space: false, ..Options::default() };
    let parsed = Frontend::new(words.iter().copied(), &options).parse();
    let mut module = parsed.map_err(|error| format!("naga does not read it: {error}"))?;
    // Functions refer to what they use alone.
    compact(&mut module, KeepUnused::No);
    super::builtins::pass(&mut module)?;
    compact(&mut module, KeepUnused::No);
    // pack2x16float and its inverse need nothing in WGSL, but have a capability of naga's.
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::SHADER_FLOAT16_IN_FLOAT32);
    let info = validator.validate(&module).map_err(|error| chain(error.as_inner()))?;
    let text = write_string(&module, &info, WriterFlags::empty()).map_err(|error| chain(&error))?;
    let text = text.replace(AGREED[0], AGREED[1]);
    // The decimal digits of the largest number are those of one above it, which Tint refuses.
    Ok(text.replace("340282350000000000000000000000000000000f", "0x1.fffffep+127f"))
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}

//! The shader a kernel dispatches: grilly's own, or the one a user put in its place.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::generated::ALL;
use super::kernel::{Kernel, Variant};
use super::{Capabilities, Feature};
use crate::backend::registry;
use crate::{Error, Result};

/// Names of generic shaders and the kernels that stand behind them, where the names differ.
const KERNELS: &[(&str, &str)] = &[
    ("embedding-normalize", "normalize"),
    ("embedding-pool", "pool"),
    ("embedding-pool-mask", "pool"),
    ("fnn-layernorm", "layer-norm"),
    ("fnn-linear", "linear"),
    ("fnn-residual", "add"),
];

/// Users' shaders by where they lie.
static USERS: LazyLock<RwLock<HashMap<String, &'static Variant>>> = LazyLock::new(RwLock::default);

/// One of grilly's own kernels, by the name of its shader or of a generic shader.
pub fn builtin(shader: &str) -> Option<&'static Kernel> {
    let name = KERNELS.iter().find(|(generic, _)| *generic == shader).map_or(shader, |(_, kernel)| kernel);
    ALL.iter().copied().find(|kernel| kernel.name == name)
}

/// Makes a user's shader known; rows that name its place then dispatch it.
pub(crate) fn add(location: &str, variant: &'static Variant) {
    USERS.write().unwrap_or_else(PoisonError::into_inner).insert(location.to_owned(), variant);
}

fn users(location: &str) -> Option<&'static Variant> {
    USERS.read().unwrap_or_else(PoisonError::into_inner).get(location).copied()
}

/// The variant that `shader` means for an architecture or `model_type` (empty for none) on a device.
///
/// # Errors
/// `PipelineCreationFailed` naming the feature that a user's shader needs and the device lacks; `ShaderNotFound` for a
/// name without a row; `Unsupported` when no variant of grilly's own fits.
pub fn select(shader: &str, architecture: &str, capabilities: &Capabilities) -> Result<&'static Variant> {
    let registry = registry::read();
    let missing = || Error::ShaderNotFound { name: shader.to_owned(), tried: registry.list(None) };
    let row = registry.find(shader, architecture).ok_or_else(missing)?;
    if let Some(location) = &row.location {
        let variant = users(location).ok_or_else(missing)?;
        return fits(variant, capabilities).map(|()| variant);
    }
    builtin(&row.file).ok_or_else(missing)?.own(capabilities)
}

/// The user's shader that stands in the place of a whole kernel.
pub(super) fn in_place_of(kernel: &Kernel, capabilities: &Capabilities) -> Result<Option<&'static Variant>> {
    let registry = registry::read();
    let names = KERNELS.iter().filter(|(_, name)| *name == kernel.name).map(|(generic, _)| *generic);
    for name in names.chain([kernel.name]) {
        if let Some(location) = registry.find(name, "").and_then(|row| row.location.as_ref())
            && let Some(variant) = users(location)
        {
            return fits(variant, capabilities).map(|()| Some(variant));
        }
    }
    Ok(None)
}

fn fits(variant: &Variant, capabilities: &Capabilities) -> Result<()> {
    let lacks = |feature: &&Feature| !capabilities.has(**feature);
    match variant.needs.iter().find(lacks) {
        None => Ok(()),
        Some(feature) => Err(Error::PipelineCreationFailed {
            shader: variant.name.into(),
            reason: format!("it needs {}, which {} lacks", feature.name(), capabilities.name),
            remedy: "register a shader that does without for this device".into(),
        }),
    }
}

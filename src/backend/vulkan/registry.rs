//! The shader that a kernel dispatches: grilly's own, or the user's that replaces it.

use std::sync::{PoisonError, RwLock};

use super::generated::ALL;
use super::kernel::{Kernel, Variant};
use super::{Capabilities, Feature, reflect};
use crate::dtype::DType;
use crate::graph::shaders::{NAMES, Registry};
use crate::{Error, Result};

/// Users' shaders, by number. None is ever removed: programs store the numbers of those they were prepared with.
static USERS: RwLock<Vec<&'static Variant>> = RwLock::new(Vec::new());

/// One of grilly's own kernels, by the name of its shader or of a generic shader.
pub fn builtin(shader: &str) -> Option<&'static Kernel> {
    let name = NAMES.iter().find(|name| name.shader == shader).map_or(shader, |name| name.kernel);
    ALL.iter().copied().find(|kernel| kernel.name == name)
}

/// Adds a user's shader; registry rows with the returned number dispatch it.
pub(crate) fn add(variant: &'static Variant) -> usize {
    let mut users = USERS.write().unwrap_or_else(PoisonError::into_inner);
    users.iter().position(|known| std::ptr::eq(*known, variant)).unwrap_or_else(|| {
        users.push(variant);
        users.len() - 1
    })
}

/// The user's shader with this number.
pub(super) fn user(number: usize) -> Option<&'static Variant> {
    USERS.read().unwrap_or_else(PoisonError::into_inner).get(number).copied()
}

/// The variant that `shader` resolves to in a registry, for an architecture or `model_type` (empty for none) on a
/// device.
///
/// # Errors
/// `PipelineCreationFailed` naming the feature that a user's shader needs and the device lacks; `ShaderNotFound` for a
/// name without a row; `Unsupported` when none of grilly's own variants fits.
pub fn select(
    registry: &Registry,
    shader: &str,
    architecture: &str,
    capabilities: &Capabilities,
) -> Result<&'static Variant> {
    let missing = || Error::ShaderNotFound { name: shader.to_owned(), tried: registry.list(None) };
    let row = registry.find(shader, architecture).ok_or_else(missing)?;
    if let Some(number) = row.user {
        let variant = user(number).ok_or_else(missing)?;
        return fits(variant, capabilities).map(|()| variant);
    }
    builtin(&row.file).ok_or_else(missing)?.own(DType::F32, capabilities)
}

/// Checks that a device has the features a user's shader needs.
///
/// # Errors
/// `PipelineCreationFailed` naming the missing feature.
pub(super) fn fits(variant: &Variant, capabilities: &Capabilities) -> Result<()> {
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

/// Holds the sizes of a user's module with these constants to the limits to which a pipeline holds its literals.
///
/// # Errors
/// `PipelineCreationFailed` naming the limit.
pub(super) fn fits_with(variant: &Variant, constants: &[u32], capabilities: &Capabilities) -> Result<()> {
    // A pipeline's own check is that of the defaults.
    if variant.constants.iter().map(|c| c.default).eq(constants.iter().copied()) {
        return Ok(());
    }
    let refused = |reason: String| Error::PipelineCreationFailed {
        shader: variant.name.into(),
        reason,
        remedy: "its specialization constants must keep to the device's limits, which grilly.info() lists".into(),
    };
    let given: Vec<_> = variant.constants.iter().map(|c| c.id).zip(constants.iter().copied()).collect();
    let (local, shared) = reflect::sizes(&variant.spirv, &given).map_err(refused)?;
    match capabilities.exceeded(capabilities.of_workgroup(local, shared)) {
        Some(reason) => Err(refused(reason)),
        None if local.contains(&0) => Err(refused(format!("its workgroup has {local:?} invocations"))),
        None => Ok(()),
    }
}

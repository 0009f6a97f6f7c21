//! A user's shader in the place of one of grilly's.

use super::functions::MAIN;
use super::{ShaderCompiler, check, variant};
use crate::backend::vulkan;
use crate::graph::shaders::{Registry, Row, instead_of};
use crate::model::shaders;
use crate::{Error, Result};

/// Whom a shader serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// Every architecture that has no own.
    Generic,
    /// One architecture, or one `model_type`.
    Architecture(&'a str),
}

/// Makes `file` the shader called `shader` for the architectures of `place`.
///
/// `file` is a GLSL or SPIR-V file in the compiler's folder (its ending may be left out; `file#function` for a function
/// that is not `main`), or the name of one of grilly's own shaders. It is compiled, and its interface must be that of
/// grilly's own shader of the name. Models that are loaded and calls that are made from then on dispatch it; a model that
/// was loaded before keeps its shaders.
///
/// # Errors
/// `ShaderNotFound`, `FunctionNotFound` and `CompilationFailed` as the compiler; `PipelineCreationFailed` naming what
/// differs from the interface; `Unsupported` for a name that no kernel runs under, with the one to register instead.
pub fn register(shader: &str, place: Place<'_>, file: &str, compiler: &ShaderCompiler) -> Result<()> {
    enter(shader, place, row(shader, file, compiler)?)
}

/// What [`register`] enters: `file`, compiled and compared with the interface of `shader`.
///
/// # Errors
/// As [`register`].
pub fn row(shader: &str, file: &str, compiler: &ShaderCompiler) -> Result<Row> {
    let (path, function) = file.split_once('#').unwrap_or((file, MAIN));
    match compiler.get_compute_function(path, function) {
        Ok(found) => Ok(Row::users(file, users(shader, &found)?)),
        Err(missing @ Error::ShaderNotFound { .. }) => own(shader, file, missing).map(|()| Row::own(file)),
        Err(error) => Err(error),
    }
}

/// Makes a row the one of its place.
///
/// # Errors
/// `InvalidArgument` for an empty name.
pub fn enter(shader: &str, place: Place<'_>, row: Row) -> Result<()> {
    let architecture = match place {
        Place::Generic => None,
        Place::Architecture(architecture) => Some(architecture),
    };
    if shader.is_empty() || architecture == Some("") {
        return Err(Error::InvalidArgument(
            "a shader is registered under a name, and for an architecture with one".into(),
        ));
    }
    shaders::change(|registry| registry.register(shader, architecture, row));
    Ok(())
}

/// Checks a user's shader and makes it known; returns its number.
fn users(shader: &str, found: &super::ComputeFunction) -> Result<usize> {
    let Some(generic) = vulkan::builtin(shader).and_then(|kernel| kernel.variants.last()) else {
        if let Some(instead) = instead_of(shader) {
            return Err(Error::Unsupported {
                what: format!("registering a shader of yours under {shader:?}"),
                reason: instead.into(),
            });
        }
        // A name of the user's own: nothing of grilly's dispatches it, so there is no interface to keep to.
        return Ok(vulkan::registry::add(found.variant));
    };
    let differences = check::differences(generic, &found.interface);
    if !differences.is_empty() {
        return Err(Error::PipelineCreationFailed {
            shader: found.variant.name.to_owned(),
            reason: format!("it differs from the interface of {shader:?}: {}", differences.join("; ")),
            remedy: format!("declare what {:?} of grilly declares", generic.name),
        });
    }
    let variant = variant::of(found.variant.name, found.variant.spirv, &found.interface, Some(generic))?;
    Ok(vulkan::registry::add(variant))
}

/// Whether `file` is one of grilly's own that has the interface of `shader`; else `missing`.
fn own(shader: &str, file: &str, missing: Error) -> Result<()> {
    if Registry::generic().find(shader, "").is_some_and(|row| row.file == file) {
        return Ok(());
    }
    let Some(kernel) = vulkan::builtin(file) else { return Err(missing) };
    let same = vulkan::builtin(shader).is_some_and(|generic| {
        let [a, b] = [generic, kernel].map(|kernel| kernel.variants.last());
        a.zip(b).is_some_and(|(a, b)| a.bindings == b.bindings && a.push == b.push && a.constants == b.constants)
    });
    if same {
        return Ok(());
    }
    Err(Error::PipelineCreationFailed {
        shader: file.to_owned(),
        reason: format!("it has not the interface of {shader:?}"),
        remedy: "name a shader that has".into(),
    })
}

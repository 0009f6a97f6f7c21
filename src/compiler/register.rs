//! Registration of users' shaders in place of grilly's own.

use super::functions::MAIN;
use super::{ShaderCompiler, check, variant};
use crate::backend::vulkan::{self, Interface};
use crate::graph::shaders::{Registry, Row, instead_of};
use crate::model::shaders;
use crate::{Error, Result};

/// Registers `file` as the shader called `shader` for one architecture or `model_type`, or for every architecture
/// without its own shader.
///
/// `file` is a GLSL or SPIR-V file in the compiler's folder (the extension is optional; `file#function` for a function
/// other than `main`), or the name of one of grilly's own shaders. It is compiled, and its interface must match that of
/// grilly's own shader of the name. Models loaded and calls made afterwards dispatch it; models loaded before keep
/// their shaders.
///
/// # Errors
/// `ShaderNotFound`, `FunctionNotFound` and `CompilationFailed` as in the compiler; `PipelineCreationFailed` naming the
/// difference from the interface; `Unsupported` for a name that no kernel uses, with the name to register instead.
pub fn register(shader: &str, architecture: Option<&str>, file: &str, compiler: &ShaderCompiler) -> Result<()> {
    enter(shader, architecture, row(shader, file, compiler, &[])?)
}

/// The entry that [`register`] adds: `file`, compiled and compared with the interface of `shader`. What the file calls by
/// other names has the second name of its pair in `names`.
///
/// # Errors
/// As [`register`], and `InvalidArgument` for a name that the file does not have.
pub fn row(shader: &str, file: &str, compiler: &ShaderCompiler, names: &[(String, String)]) -> Result<Row> {
    let (path, function) = file.split_once('#').unwrap_or((file, MAIN));
    match compiler.get_compute_function(path, function) {
        Ok(mut found) => {
            rename(&mut found.interface, names, file)?;
            Ok(Row::users(file, users(shader, &found)?))
        }
        Err(missing @ Error::ShaderNotFound { .. }) => own(shader, file, missing).map(|()| Row::own(file)),
        Err(error) => Err(error),
    }
}

/// Gives the parts of an interface the second name of their pair.
fn rename(interface: &mut Interface, names: &[(String, String)], file: &str) -> Result<()> {
    let bindings = interface.bindings.iter_mut().map(|binding| &mut binding.name);
    let push = interface.push.iter_mut().map(|member| &mut member.name);
    let constants = interface.constants.iter_mut().map(|constant| &mut constant.name);
    let mut own: Vec<&mut String> = bindings.chain(push).chain(constants).collect();
    if let Some((other, _)) = names.iter().find(|(from, _)| own.iter().all(|name| *name != from)) {
        let own: Vec<&str> = own.iter().map(|name| name.as_str()).collect();
        return Err(Error::InvalidArgument(format!("names: {file} has no {other:?}; it has {}", own.join(", "))));
    }
    for name in &mut own {
        if let Some((_, to)) = names.iter().find(|(from, _)| *from == **name) {
            (*name).clone_from(to);
        }
    }
    Ok(())
}

/// Adds an entry to the process' registry; warns if models of the architecture do not run it.
///
/// # Errors
/// `InvalidArgument` for an empty name.
pub fn enter(shader: &str, architecture: Option<&str>, row: Row) -> Result<()> {
    if shader.is_empty() || architecture == Some("") {
        return Err(Error::InvalidArgument(
            "a shader is registered under a name, and for an architecture with one".into(),
        ));
    }
    shaders::change(|registry| registry.register(shader, architecture, row));
    if let Some(text) = architecture.and_then(|name| shaders::unused(&shaders::read(), shader, name)) {
        log::warn!(target: "grilly", "{text}");
    }
    Ok(())
}

/// Checks a user's shader and adds it to the Vulkan registry; returns its number.
fn users(shader: &str, found: &super::ComputeFunction) -> Result<usize> {
    let Some(generic) = vulkan::builtin(shader).and_then(|kernel| kernel.variants.last()) else {
        if let Some(instead) = instead_of(shader) {
            return Err(Error::unsupported(format!("registering a shader of yours under {shader:?}"), instead));
        }
        // A name not used by grilly: no kernel dispatches it, so there is no interface to match.
        return Ok(vulkan::registry::add(found.variant));
    };
    let mut differences = check::differences(generic, &found.interface);
    let others = found.buffers().filter(|(place, ..)| place.set != 0);
    differences.extend(others.map(|(place, name, _)| format!("{name:?} is in set {}, expected set 0", place.set)));
    if !differences.is_empty() {
        return Err(Error::PipelineCreationFailed {
            shader: found.variant.name.to_owned(),
            reason: format!("it differs from the interface of {shader:?}: {}", differences.join("; ")),
            remedy: format!("declare what {:?} of grilly declares", generic.name),
        });
    }
    let variant = variant::of(found.variant.name, &found.variant.spirv, &found.interface, Some(generic))?;
    Ok(vulkan::registry::add(variant))
}

/// Checks that `file` is one of grilly's own shaders, returning `missing` if not, and has the interface of `shader`.
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
        reason: format!("it does not have the interface of {shader:?}"),
        remedy: "name a shader that has".into(),
    })
}

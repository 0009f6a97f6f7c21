//! Compiled modules as variants with the lifetime of the process, dispatched like grilly's own.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::module;
use crate::backend::vulkan::{Binding, Constant, Interface, Module, PushMember, Variant, cache_file};
use crate::dtype::DType;
use crate::{Error, Result};

/// Variants by the hash of name, interface and code: recompiling the same shader returns the same variant.
static MADE: LazyLock<Mutex<HashMap<u128, &'static Variant>>> = LazyLock::new(Mutex::default);

fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

fn text(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The variant of a module by itself, or as a replacement of `generic`, with all of whose bindings and push block.
///
/// # Errors
/// `PipelineCreationFailed` naming a capability that grilly never enables on a device.
pub(super) fn of(
    name: &str,
    spirv: &[u32],
    interface: &Interface,
    generic: Option<&Variant>,
) -> Result<&'static Variant> {
    let needs = module::needs(spirv).map_err(|what| Error::PipelineCreationFailed {
        shader: name.to_owned(),
        reason: format!("it needs {what}, which grilly turns on on no device"),
        remedy: "write it without".into(),
    })?;
    let content = format!("{name} | {interface:?} | {:?} | {spirv:?}", generic.map(|g| (g.bindings, g.push)));
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let variant = made.entry(cache_file::content_hash(content.as_bytes())).or_insert_with(|| {
        let bindings = || {
            let rows = interface.bindings.iter();
            leak(rows.map(|b| Binding { name: text(&b.name), index: b.index, access: b.access }).collect())
        };
        let push = || {
            let rows = interface.push.iter();
            leak(rows.map(|m| PushMember { name: text(&m.name), scalar: m.scalar }).collect())
        };
        let constants = interface.constants.iter().map(|c| Constant {
            name: text(&c.name.to_lowercase()),
            id: c.id,
            scalar: c.scalar,
            default: c.default,
        });
        let push = generic.map_or_else(push, |g| g.push);
        Box::leak(Box::new(Variant {
            numerics: crate::numerics::Numerics::Run,
            name: text(name),
            stored: DType::F32,
            source: "",
            defines: &[],
            needs: leak(needs),
            when: &[],
            spirv: Module::Words(leak(spirv.to_vec())),
            bindings: generic.map_or_else(bindings, |g| g.bindings),
            push_bytes: 4 * push.len() as u32,
            push,
            constants: leak(constants.collect()),
            local_size: interface.local_size,
            shared_bytes: interface.shared_bytes,
        }))
    });
    Ok(*variant)
}

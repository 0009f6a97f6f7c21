//! Checks whether a shader can replace another: both must declare the same interface.

use crate::backend::vulkan::{Access, Interface, Variant};

/// Differences between a shader's declarations and those of `generic`; empty if it fits.
///
/// A shader may omit what it does not use and have additional specialization constants, which keep their defaults.
/// Names are compared where the module contains them: a precompiled one may not.
pub(super) fn differences(generic: &Variant, found: &Interface) -> Vec<String> {
    let mut faults = Vec::new();
    for binding in &found.bindings {
        let Some(expected) = generic.bindings.iter().find(|b| b.index == binding.index) else {
            let all: Vec<String> = generic.bindings.iter().map(|b| format!("{} {}", b.index, b.name)).collect();
            faults.push(format!("binding {} {:?} is not one of {}", binding.index, binding.name, all.join(", ")));
            continue;
        };
        faults.extend(name_fault(&format!("binding {}", binding.index), &binding.name, expected.name));
        let what = format!("binding {} {:?}", binding.index, expected.name);
        faults.extend(kind_fault(&what, qualifier(binding.access), qualifier(expected.access)));
    }
    for expected in generic.bindings.iter().filter(|b| b.access != Access::Read) {
        if !found.bindings.iter().any(|b| b.index == expected.index) {
            faults.push(format!("binding {} {:?}, the result, is missing", expected.index, expected.name));
        }
    }
    for (place, member) in found.push.iter().enumerate() {
        let byte = 4 * place;
        let Some(expected) = generic.push.get(place) else {
            let all: Vec<&str> = generic.push.iter().map(|m| m.name).collect();
            let name = &member.name;
            faults.push(format!("push constant {name:?} at byte {byte} is one too many: there are {}", all.join(", ")));
            continue;
        };
        faults.extend(name_fault(&format!("the push constant at byte {byte}"), &member.name, expected.name));
        let what = format!("push constant {:?}", expected.name);
        faults.extend(kind_fault(&what, member.scalar.glsl(), expected.scalar.glsl()));
    }
    for constant in &found.constants {
        let own = constant.name.to_lowercase();
        if let Some(expected) = generic.constants.iter().find(|c| c.id == constant.id) {
            let name = expected.name.to_uppercase();
            if own != expected.name {
                faults.extend(name_fault(&format!("constant_id {}", constant.id), &constant.name, &name));
            }
            faults.extend(kind_fault(&format!("constant {name:?}"), constant.scalar.glsl(), expected.scalar.glsl()));
        } else if let Some(expected) = generic.constants.iter().find(|c| c.name == own) {
            let (name, id) = (&constant.name, constant.id);
            faults.push(format!("constant {name:?} has constant_id {id}, expected {}", expected.id));
        }
    }
    faults
}

/// A name without characters is one that the module does not have.
fn name_fault(what: &str, found: &str, expected: &str) -> Option<String> {
    (!found.is_empty() && found != expected).then(|| format!("{what} is called {found:?}, expected {expected:?}"))
}

fn kind_fault(what: &str, found: &str, expected: &str) -> Option<String> {
    (found != expected).then(|| format!("{what} is {found}, expected {expected}"))
}

fn qualifier(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "read and written",
        access => access.name(),
    }
}

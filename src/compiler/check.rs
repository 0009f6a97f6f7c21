//! Checks whether a shader can replace another: both must declare the same interface.

use crate::backend::vulkan::{Access, Interface, Variant};

/// Differences between a shader's declarations and those of `generic`; empty if it fits.
///
/// A shader may omit what it does not use and have additional specialization constants, which keep their defaults.
/// Names are compared where the module contains them: a precompiled one may not.
pub(super) fn differences(generic: &Variant, found: &Interface) -> Vec<String> {
    let mut faults = Vec::new();
    let named = |name: &str| !name.is_empty();
    for binding in &found.bindings {
        let Some(expected) = generic.bindings.iter().find(|b| b.index == binding.index) else {
            let all: Vec<String> = generic.bindings.iter().map(|b| format!("{} {}", b.index, b.name)).collect();
            faults.push(format!("binding {} {:?} is not one of {}", binding.index, binding.name, all.join(", ")));
            continue;
        };
        if named(&binding.name) && binding.name != expected.name {
            faults
                .push(format!("binding {} is called {:?}, expected {:?}", binding.index, binding.name, expected.name));
        }
        if binding.access != expected.access {
            let [found, expected_access] = [binding.access, expected.access].map(qualifier);
            faults
                .push(format!("binding {} {:?} is {found}, expected {expected_access}", binding.index, expected.name));
        }
    }
    for expected in generic.bindings.iter().filter(|b| b.access != Access::Read) {
        if !found.bindings.iter().any(|b| b.index == expected.index) {
            faults.push(format!("binding {} {:?}, the result, is missing", expected.index, expected.name));
        }
    }
    for (place, member) in found.push.iter().enumerate() {
        match generic.push.get(place) {
            None => faults.push(format!(
                "push constant {:?} at byte {} is one too many: there are {}",
                member.name,
                4 * place,
                generic.push.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
            )),
            Some(expected) => {
                if named(&member.name) && member.name != expected.name {
                    faults.push(format!(
                        "the push constant at byte {} is called {:?}, expected {:?}",
                        4 * place,
                        member.name,
                        expected.name
                    ));
                }
                if member.scalar != expected.scalar {
                    faults.push(format!(
                        "push constant {:?} is {}, expected {}",
                        expected.name,
                        member.scalar.glsl(),
                        expected.scalar.glsl()
                    ));
                }
            }
        }
    }
    for constant in &found.constants {
        let name = constant.name.to_lowercase();
        if let Some(expected) = generic.constants.iter().find(|c| c.id == constant.id) {
            if named(&name) && name != expected.name {
                faults.push(format!(
                    "constant_id {} is called {:?}, expected {:?}",
                    constant.id,
                    constant.name,
                    expected.name.to_uppercase()
                ));
            }
            if constant.scalar != expected.scalar {
                faults.push(format!(
                    "constant {:?} is {}, expected {}",
                    expected.name.to_uppercase(),
                    constant.scalar.glsl(),
                    expected.scalar.glsl()
                ));
            }
        } else if let Some(expected) = generic.constants.iter().find(|c| c.name == name) {
            faults.push(format!(
                "constant {:?} has constant_id {}, expected {}",
                constant.name, constant.id, expected.id
            ));
        }
    }
    faults
}

fn qualifier(access: Access) -> &'static str {
    match access {
        Access::Read => "readonly",
        Access::Write => "writeonly",
        Access::ReadWrite => "read and written",
    }
}

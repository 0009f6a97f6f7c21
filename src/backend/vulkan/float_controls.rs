//! What a module asks of a device's float32 arithmetic where its results are to have the same bits everywhere: modes that not
//! every device offers, and so no compiled module has.

use rspirv::spirv::{Capability, ExecutionMode, Op};

use super::{Capabilities, Feature};

/// A feature, and the capability and the mode of a module that asks for it.
const MODES: [(Feature, Capability, ExecutionMode); 2] = [
    (Feature::RoundsToEven, Capability::RoundingModeRTE, ExecutionMode::RoundingModeRTE),
    (Feature::KeepsSpecialFloats, Capability::SignedZeroInfNanPreserve, ExecutionMode::SignedZeroInfNanPreserve),
];

/// The module with the modes that the device offers.
pub(super) fn with_modes(words: &[u32], device: &Capabilities) -> Vec<u32> {
    let (mut capabilities, mut modes) = (Vec::new(), Vec::new());
    let mut found = words[..5.min(words.len())].to_vec();
    let mut at = found.len();
    let (mut entry, mut placed) = (0, false);
    for (_, capability, mode) in MODES.iter().filter(|(feature, ..)| device.has(*feature)) {
        capabilities.extend([2 << 16 | Op::Capability as u32, *capability as u32]);
        modes.push(*mode as u32);
    }
    found.append(&mut capabilities);
    while let Some(word) = words.get(at) {
        let (opcode, length) = (word & 0xffff, (word >> 16).max(1) as usize);
        match opcode {
            _ if opcode == Op::EntryPoint as u32 => entry = words.get(at + 2).copied().unwrap_or(0),
            // Every kernel has the mode that states its workgroup.
            _ if opcode == Op::ExecutionMode as u32 && !placed => {
                found.extend(modes.iter().flat_map(|mode| [4 << 16 | Op::ExecutionMode as u32, entry, *mode, 32]));
                placed = true;
            }
            _ => {}
        }
        found.extend(&words[at..(at + length).min(words.len())]);
        at += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::generated::known_answers;
    use crate::backend::vulkan::raw::spirv_tools::validate;

    #[test]
    fn a_module_has_the_modes_of_the_device() {
        let words = &known_answers::KERNEL.variants[0].spirv;
        assert_eq!(with_modes(words, &Capabilities::floor()), **words);
        let features = vec![Feature::RoundsToEven, Feature::KeepsSpecialFloats];
        let asked = with_modes(words, &Capabilities { features, ..Capabilities::floor() });
        assert_eq!(asked.len(), words.len() + 2 * (2 + 4));
        validate(&asked).unwrap();
        assert!(asked.windows(2).any(|pair| pair == [ExecutionMode::RoundingModeRTE as u32, 32]));
    }
}

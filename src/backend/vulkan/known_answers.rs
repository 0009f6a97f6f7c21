//! Whether a device computes as numerics="everywhere" assumes: known answers of `known-answers.glsl`, asked when the first such
//! plan is prepared for it.

use std::sync::Arc;

use super::generated::known_answers::KERNEL;
use super::kernel::Variant;
use super::probe;
use super::raw::Device;
use crate::dtype::DType;
use crate::numerics::portable::power_of_two;
use crate::numerics::{Numerics, settle};
use crate::{Error, Result};

/// Quads of numbers that are asked about.
const QUADS: usize = 64;
/// What is computed of each.
const ANSWERS: [&str; 8] = [
    "a * b + c",
    "(a + b) - a",
    "a number that is settled",
    "a / b",
    "sqrt(a)",
    "the float of an integer",
    "a number to its nearest integer",
    "the float of a sum of 64 bits",
];

/// Checks a device.
///
/// # Errors
/// `Unsupported` naming the mode, the device and the operation that it computes otherwise; `OutOfMemory` or a device fault, which
/// say nothing of it.
pub(super) fn check(device: &Arc<Device>) -> Result<()> {
    let variant = KERNEL.own_of((DType::F32, Numerics::Everywhere), &device.capabilities)?;
    match fault(device, variant)? {
        None => Ok(()),
        Some(what) => {
            let reason = format!("{} computes {what} otherwise", device.capabilities.name);
            Err(Error::unsupported("numerics=\"everywhere\"", reason))
        }
    }
}

/// The first answer of a variant of the kernel that is not the known one.
fn fault(device: &Arc<Device>, variant: &'static Variant) -> Result<Option<String>> {
    let quads = quads();
    let numbers: Vec<f32> = quads.iter().flatten().map(|word| f32::from_bits(*word)).collect();
    let found = probe::run(device, variant, &[], &numbers, ANSWERS.len() * QUADS)?;
    let differs = |(quad, found): (&[u32; 4], &[u32])| {
        let place = answers(*quad).iter().zip(found).position(|(known, found)| known != found)?;
        let [a, b, c, d] = *quad;
        let operands = [a, b, c].map(f32::from_bits);
        Some(format!("{} (of {operands:?} and {d:#x}: {:#x})", ANSWERS[place], found[place]))
    };
    Ok(quads.iter().zip(found.chunks_exact(ANSWERS.len())).find_map(differs))
}

/// Bits of `a`, `b`, `c` and `d`: numbers at the edges of what is asked, then numbers of all magnitudes whose sums cancel.
fn quads() -> Vec<[u32; 4]> {
    let unit = |power: i32| power_of_two(power) as f32;
    let edges: [[f32; 3]; 16] = [
        [1.0 + unit(-12), 1.0 + unit(-12), -1.0 - unit(-11)],
        [1.0 - unit(-24), 1.0 + unit(-23), -1.0],
        [1e8, 1.0, 0.0],
        [1.0, unit(-24), unit(-25)],
        [1.0, 3.0 * unit(-24), 1.0],
        [f32::INFINITY, 2.0, 1.0],
        [f32::NAN, 1.0, 1.0],
        [1.0, 0.0, 1.0],
        [0.0, 0.0, 1.0],
        [unit(-100), unit(-3), 1.0],
        [unit(-101), 1.0, 1.0],
        [f32::from_bits(0x0d7f_ffff), 1.0, 1.0],
        [f32::from_bits(1), 1.0, 1.0],
        [f32::from_bits(0x007f_ffff), 3.0, 1.0],
        [2.5, f32::MAX, 0.5],
        [3.0, unit(-99), -unit(-98)],
    ];
    // Integers at ties above 2^24.
    let mut found: Vec<[u32; 4]> = edges
        .iter()
        .zip(0u32..)
        .map(|(quad, i)| {
            let [a, b, c] = quad.map(f32::to_bits);
            [a, b, c, [0x0100_0001, 0x0100_0003, 0xfeff_ffff, 0x7fff_ffff][i as usize % 4] ^ (i / 4)]
        })
        .collect();
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        state
    };
    while found.len() < QUADS {
        let [a, b] = [next(), next()].map(|bits| f32::from_bits(bits % 0x1e00_0000 + 0x3000_0000));
        let c = -(a * b) * [1.0, 0.99, 1.0, -3.0][found.len() % 4];
        found.push([a.to_bits(), b.to_bits(), c.to_bits(), next()]);
    }
    found
}

/// What the kernel writes.
fn answers([a_bits, b_bits, c, d]: [u32; 4]) -> [u32; 8] {
    let [a, b, c] = [a_bits, b_bits, c].map(f32::from_bits);
    let sum = (i64::from(b_bits) << 32 | i64::from(a_bits)) as f32;
    let assembled = f64::from(sum) * power_of_two(d as i32 >> 24);
    let assembled = if assembled.abs() < f64::from(f32::MIN_POSITIVE) { 0.0f64.copysign(assembled) } else { assembled };
    let known = [
        a * b + c,
        (a + b) - a,
        settle(a),
        settle(settle(a) / settle(b)),
        settle(a).sqrt(),
        d as i32 as f32,
        a.round_ties_even(),
        assembled as f32,
    ];
    known.map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() })
}

#[cfg(test)]
mod tests {
    use rspirv::binary::Assemble;
    use rspirv::dr::{Instruction, Operand};
    use rspirv::spirv::Op;

    use super::*;
    use crate::backend::vulkan::device::open_device;
    use crate::backend::vulkan::{Module, spirv};
    use crate::settings::{Settings, test_requires};

    /// The kernel with a difference in place of its first sum of a product. A fused step is no test of a software device, which
    /// makes two of it.
    fn altered(variant: &'static Variant) -> &'static Variant {
        let mut module = spirv::load(&variant.spirv).unwrap();
        let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
        for block in blocks {
            let products: Vec<_> = block.instructions.iter().filter(|i| i.class.opcode == Op::FMul).cloned().collect();
            let of_product = |id: &Operand| products.iter().any(|product| product.result_id == id.id_ref_any());
            let mut sums = block.instructions.iter_mut().filter(|i| i.class.opcode == Op::FAdd);
            if let Some(sum) = sums.find(|sum| of_product(&sum.operands[0])) {
                *sum = Instruction::new(Op::FSub, sum.result_type, sum.result_id, sum.operands.clone());
                let words: &'static [u32] = Box::leak(module.assemble().into());
                return Box::leak(Box::new(Variant { spirv: Module::Words(words), ..*variant }));
            }
        }
        panic!("no product is added to")
    }

    #[test]
    fn a_device_that_computes_otherwise_is_told_by_its_answers() {
        let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
        match open_device(None, &settings) {
            Ok((opened, _)) => {
                let device = &opened.device;
                check(device).unwrap();
                let own = KERNEL.own_of((DType::F32, Numerics::Everywhere), &device.capabilities).unwrap();
                let found = fault(device, altered(own)).unwrap().unwrap();
                assert!(found.starts_with("a * b + c (of "), "{found}");
            }
            Err(error) if test_requires("vulkan") => panic!("{error}"),
            Err(error) => println!("skipped: a_device_that_computes_otherwise_is_told_by_its_answers: {error}"),
        }
    }

    #[test]
    fn what_is_asked_tells_fused_and_reordered_arithmetic_apart() {
        let floats = || quads().into_iter().map(|[a, b, c, _]| [a, b, c].map(f32::from_bits));
        assert!(floats().filter(|[a, b, c]| a.mul_add(*b, *c) != a * b + c && !a.is_nan()).count() > 8);
        assert!(floats().filter(|[a, b, _]| (a + b) - a != *b && !a.is_nan()).count() > 8);
        let truncated = |x: f64, y: f32| y.abs() as f64 > x.abs();
        assert!(quads().iter().any(|quad| truncated(f64::from(quad[3] as i32), quad[3] as i32 as f32)));
    }
}

//! Features that the cooperative matrices of a SPIR-V module require.

use std::collections::HashMap;

use rspirv::dr::{Module, Operand};
use rspirv::spirv::{Op, Word};

use crate::backend::vulkan::Feature;

/// The features whose products a module's matrices can have, of each type, rows, columns and terms for which it has both operands
/// and a sum.
///
/// # Errors
/// The name that a feature of such a product would have, if there is none.
pub(super) fn features(module: &Module) -> Result<Vec<Feature>, String> {
    let mut numbers: HashMap<Word, u32> = HashMap::new();
    let mut names: HashMap<Word, String> = HashMap::new();
    // Type, rows and columns, by use.
    let mut matrices: [Vec<(String, u32, u32)>; 3] = Default::default();
    for instruction in &module.types_global_values {
        let Some(id) = instruction.result_id else { continue };
        match (instruction.class.opcode, &instruction.operands[..]) {
            (Op::Constant | Op::SpecConstant, [Operand::LiteralBit32(value)]) => {
                numbers.insert(id, *value);
            }
            (Op::TypeFloat, [Operand::LiteralBit32(bits), encoding @ ..]) => {
                names.insert(id, if encoding.is_empty() { format!("f{bits}") } else { format!("bf{bits}") });
            }
            (Op::TypeInt, [Operand::LiteralBit32(bits), Operand::LiteralBit32(signed)]) => {
                names.insert(id, format!("{}{bits}", if *signed == 1 { "s" } else { "u" }));
            }
            (Op::TypeCooperativeMatrixKHR, [Operand::IdRef(of), sizes @ ..]) => {
                let size = |operand: &Operand| numbers.get(&operand.id_ref_any()?).copied();
                let sizes: Vec<u32> = sizes.iter().filter_map(size).collect();
                if let (Some(name), [_, rows, columns, used]) = (names.get(of), &sizes[..])
                    && let Some(all) = matrices.get_mut(*used as usize)
                {
                    all.push((name.clone(), *rows, *columns));
                }
            }
            _ => {}
        }
    }
    let [left, right, sums] = matrices;
    let mut found = Vec::new();
    for (of, m, k) in &left {
        for (_, _, n) in right.iter().filter(|(name, rows, _)| (name, rows) == (of, k)) {
            let sums = sums.iter().filter(|(_, rows, columns)| (rows, columns) == (m, n));
            let products: Vec<String> = sums.map(|(sum, ..)| format!("coopmat_{of}_{sum}_{m}x{n}x{k}")).collect();
            let mut named: Vec<Feature> = products.iter().filter_map(|name| Feature::named(name)).collect();
            if let (Some(first), true) = (products.first(), named.is_empty()) {
                return Err(first.clone());
            }
            named.retain(|feature| !found.contains(feature));
            found.extend(named);
        }
    }
    Ok(found)
}

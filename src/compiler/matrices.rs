//! Features that the cooperative matrices of a SPIR-V module require.

use std::collections::HashMap;

use rspirv::dr::{Module, Operand};
use rspirv::spirv::{Op, Word};

use crate::backend::vulkan::Feature;

/// A matrix's type, rows and columns.
type Matrix = (String, u32, u32);

/// The features whose products a module's matrices can have, of each type, rows, columns and terms for which it has both operands
/// and a sum; of each other matrix, which is only loaded, converted or stored, the first with a product that has such a matrix.
///
/// # Errors
/// What no feature has: products or a matrix.
pub(super) fn features(module: &Module) -> Result<Vec<Feature>, String> {
    let mut numbers: HashMap<Word, u32> = HashMap::new();
    let mut names: HashMap<Word, String> = HashMap::new();
    // Type, rows and columns, by use.
    let mut matrices: [Vec<Matrix>; 3] = Default::default();
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
    let [left, right, sums] = &matrices;
    let mut found = Vec::new();
    for (of, m, k) in left {
        for (_, _, n) in right.iter().filter(|(name, rows, _)| (name, rows) == (of, k)) {
            let sums = sums.iter().filter(|(_, rows, columns)| (rows, columns) == (m, n));
            let products: Vec<String> = sums.map(|(sum, ..)| format!("coopmat_{of}_{sum}_{m}x{n}x{k}")).collect();
            let mut named: Vec<Feature> = products.iter().filter_map(|name| Feature::named(name)).collect();
            if let (Some(first), true) = (products.first(), named.is_empty()) {
                return Err(format!("products of matrices as {first}"));
            }
            named.retain(|feature| !found.contains(feature));
            found.extend(named);
        }
    }
    for (matrix, used) in (0..).zip(&matrices).flat_map(|(used, all)| all.iter().map(move |matrix| (matrix, used))) {
        if !found.iter().any(|feature| has(*feature, matrix, used)) {
            let first = Feature::ALL.iter().find(|feature| has(**feature, matrix, used));
            let (of, rows, columns) = matrix;
            let kind = ["left operands", "right operands", "sums"][used];
            found.push(*first.ok_or_else(|| format!("matrices of {of}, {rows}x{columns}, as {kind}"))?);
        }
    }
    Ok(found)
}

/// Whether the products of a feature have such a matrix as left (0) or right operand, or as sum. Those of f16 have sums of both types
/// (`raw/query.rs`).
fn has(feature: Feature, (name, rows, columns): &Matrix, used: usize) -> bool {
    let (Some([m, n, k]), Some(of)) = (feature.matrix(), feature.matrix_type()) else { return false };
    let of_sum = || feature.name().split('_').nth(2) == Some(name) || (of, &**name) == ("f16", "f16");
    let fits = if used == 2 { of_sum() } else { name == of };
    fits && [[m, k], [k, n], [m, n]][used] == [*rows, *columns]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::backend::vulkan::spirv;
    use crate::compiler::glsl::Request;

    /// The features of a shader that has these matrices of a type, rows, columns and use, and no product.
    fn of(matrices: &[(&str, u32, u32, &str)]) -> Result<Vec<Feature>, String> {
        let each = (0..).zip(matrices).map(|(i, (of, rows, columns, used))| {
            let kind = format!("coopmat<{of}, gl_ScopeSubgroup, {rows}, {columns}, gl_MatrixUse{used}>");
            format!(
                "{kind} m{i}; coopMatLoad(m{i}, x, {i}, 16, gl_CooperativeMatrixLayoutRowMajor);\n\
                 coopMatStore(m{i}, x, {i}, 16, gl_CooperativeMatrixLayoutRowMajor);\n"
            )
        });
        let text = format!(
            "#version 460\n#extension GL_KHR_cooperative_matrix : require\n\
             #extension GL_KHR_memory_scope_semantics : require\n\
             #extension GL_EXT_shader_explicit_arithmetic_types : require\n\
             layout(local_size_x = 32) in;\nlayout(std430, binding = 0) buffer X {{ uint x[]; }};\n\
             void main() {{\n{}}}\n",
            each.collect::<String>()
        );
        let target = (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6);
        let defines = &BTreeMap::new();
        let request = Request { text: &text, file: "matrices", defines, target, named: true, strict: false };
        let (words, _) = request.compile(|_, _, _| Err("includes nothing".into())).unwrap();
        features(&spirv::load(&words).unwrap())
    }

    #[test]
    fn matrices_without_a_product_need_a_product_that_has_them() {
        let alone = |of_type, rows, columns, used| of(&[(of_type, rows, columns, used)]).unwrap();
        assert_eq!(alone("float16_t", 16, 16, "A"), [Feature::MatrixF16]);
        assert_eq!(alone("float16_t", 8, 16, "A"), [Feature::MatrixF16Rows8]);
        assert_eq!(alone("float16_t", 8, 16, "Accumulator"), [Feature::MatrixF16Rows8]);
        assert_eq!(alone("int8_t", 16, 32, "A"), [Feature::MatrixS8]);
        assert_eq!(alone("int8_t", 32, 16, "B"), [Feature::MatrixS8]);
        assert_eq!(alone("int8_t", 16, 16, "A"), [Feature::MatrixS8Terms16]);
        assert_eq!(alone("int", 8, 8, "Accumulator"), [Feature::MatrixS8Squares8]);
        // One product has both.
        assert_eq!(of(&[("int8_t", 8, 8, "A"), ("int", 8, 8, "Accumulator")]), Ok(vec![Feature::MatrixS8Squares8]));
        let refused = of(&[("int8_t", 32, 8, "A")]);
        assert_eq!(refused, Err("matrices of s8, 32x8, as left operands".into()));
    }

    #[test]
    fn products_need_themselves_alone() {
        let all = [("int8_t", 16, 32, "A"), ("int8_t", 32, 16, "B"), ("int", 16, 16, "Accumulator")];
        assert_eq!(of(&all), Ok(vec![Feature::MatrixS8]));
        let refused = of(&[("int8_t", 8, 32, "A"), ("int8_t", 32, 8, "B"), ("int", 8, 8, "Accumulator")]);
        assert_eq!(refused, Err("products of matrices as coopmat_s8_s32_8x8x32".into()));
    }
}

//! The HLSL of every op by the front end of glslang; `tests/ops/test_export.py` has DXC compile it.

use std::collections::HashSet;

use grilly::dtype::DType;
use grilly::export::{Target, compile_op};

use super::table;

fn parse(text: &str) -> Result<(), String> {
    let mut options = shaderc::CompileOptions::new().unwrap();
    options.set_source_language(shaderc::SourceLanguage::HLSL);
    options.set_target_env(shaderc::TargetEnv::Vulkan, shaderc::EnvVersion::Vulkan1_3 as u32);
    let compiler = shaderc::Compiler::new().unwrap();
    let kind = shaderc::ShaderKind::Compute;
    let made = compiler.compile_into_spirv(text, kind, "kernel.hlsl", "main", Some(&options));
    made.map(drop).map_err(|error| error.to_string())
}

#[test]
fn glslang_parses_the_hlsl_of_every_op() {
    let Some(rows) = table("glslang_parses_the_hlsl_of_every_op", &[]) else { return };
    let mut seen = HashSet::new();
    for row in rows.iter().filter(|row| row.stored() == DType::F32 && !row.name.contains("not-finite")) {
        if !seen.insert(row.op.name()) {
            continue;
        }
        let operands: Vec<_> = row.operands.iter().map(|operand| (operand.dtype, operand.axes.clone())).collect();
        let compiled = compile_op(&row.op, &operands, Target::Hlsl, false).unwrap();
        for code in compiled.code {
            let text = String::from_utf8(code.bytes).unwrap();
            parse(&text).unwrap_or_else(|error| panic!("{}, {}: {error}", row.name, code.name));
            assert!(parse(&text.replace("uint ", "unit ")).is_err(), "{}", code.name);
        }
    }
    assert!(seen.len() > 40, "{} ops", seen.len());
}

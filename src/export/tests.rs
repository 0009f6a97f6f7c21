//! What every kernel gives in every language, without a device.

use serde_json::json;

use super::{Target, compile_op};
use crate::dtype::DType;
use crate::kernels::{Kernel, ROWS};
use crate::ops::Op;

#[test]
fn spirv_is_the_module_that_runs() {
    let kernel = Kernel::get("layer_norm_linear", json!({"hidden_dim": 64})).unwrap();
    let compiled = kernel.compile(Target::Spirv, 3).unwrap();
    let names: Vec<&str> = compiled.code.iter().map(|code| code.name.as_str()).collect();
    assert_eq!(names, ["layer-norm-moments", "layer-norm-linear"]);
    for code in &compiled.code {
        let mut variants = crate::backend::vulkan::generated::ALL.iter().flat_map(|kernel| kernel.variants);
        let variant = variants.find(|variant| variant.name == code.name).unwrap();
        assert_eq!(code.bytes, bytemuck::cast_slice::<u32, u8>(&variant.spirv));
    }
    let kinds: Vec<_> = compiled.interface["buffers"].as_array().unwrap().iter().map(|b| b["kind"].clone()).collect();
    let expected = ["counts", "operand", "operand", "operand", "operand", "operand", "result", "scratch"];
    assert!(kinds.iter().all(|kind| expected.contains(&kind.as_str().unwrap())) && kinds.len() == 8, "{kinds:?}");
    let second = &compiled.interface["dispatches"][1];
    assert_eq!(second["parameters"]["kind"], "push_constants");
    assert_eq!(second["bindings"].as_array().unwrap().len(), 8);
    assert_eq!(compiled.interface["dispatches"][0]["parameters"]["members"][2]["value"], 64);
}

#[test]
fn what_cannot_be_compiled_is_refused() {
    let of = |name: &str, operands: &[(DType, Vec<usize>)]| {
        let op = Op::from_attributes(name, json!({})).unwrap();
        compile_op(&op, operands, Target::Spirv, false).unwrap_err().to_string()
    };
    let rows = (DType::F32, vec![3, 5]);
    assert!(of("layer_norm", std::slice::from_ref(&rows)).contains("expected 3"));
    assert!(of("layer_norm", &[rows.clone(), rows.clone(), rows.clone()]).contains("weight"));
    let halves = |axes: &[usize]| (DType::F16, axes.to_vec());
    let error = of("layer_norm", &[halves(&[3, 8]), halves(&[8]), (DType::F32, vec![8])]);
    assert_eq!(error, "layer_norm: weight is float16, expected float32");
    assert!(of("normalize", &[(DType::F32, vec![0, 5])]).contains("without elements"));
    assert!(of("normalize", &[(DType::U32, vec![3, 5])]).contains("normalize"));
    let kernel = Kernel::get("bias_gelu", json!({})).unwrap();
    assert!(kernel.compile(Target::Spirv, 0).unwrap_err().to_string().contains("rows is 0"));
    let both = Kernel::get("bias_gelu", json!({"use_half": true, "use_bfloat16": true})).unwrap_err();
    assert!(both.to_string().contains("both given"), "{both}");
}

/// The targets that are texts, and what every kernel has in them.
#[cfg(feature = "export")]
const TEXTS: [(Target, &str); 4] = [
    (Target::Wgsl, "@compute"),
    (Target::Msl, "kernel void"),
    (Target::Hlsl, "numthreads"),
    (Target::Cuda, "__launch_bounds__"),
];

#[cfg(feature = "export")]
#[test]
fn every_kernel_has_a_text_in_every_language() {
    for row in ROWS {
        for (target, part) in TEXTS {
            let kernel = Kernel::get(row.name, json!({})).unwrap();
            let compiled = kernel.compile(target, 5).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            for code in &compiled.code {
                let text = String::from_utf8(code.bytes.clone()).unwrap();
                let dispatches = compiled.interface["dispatches"].as_array().unwrap();
                let of = dispatches.iter().find(|dispatch| dispatch["shader"] == code.name.as_str()).unwrap();
                let parameter = of["parameters"]["members"][0]["name"].as_str().unwrap();
                assert!(text.contains(part) && text.contains(parameter), "{} without {parameter}: {text}", code.name);
            }
        }
    }
}

#[cfg(feature = "export")]
#[test]
fn constants_are_baked_and_bindings_are_declared_once() {
    let kernel = Kernel::get("bias_gelu", json!({"hidden_dim": 6})).unwrap();
    let text = |target| String::from_utf8(kernel.compile(target, 5).unwrap().code.swap_remove(0).bytes).unwrap();
    let wgsl = text(Target::Wgsl);
    assert!(!wgsl.contains("override") && wgsl.contains("@workgroup_size(256, 1, 1)"), "{wgsl}");
    for binding in 0..=4 {
        assert_eq!(wgsl.matches(&format!("@binding({binding})")).count(), 1, "{wgsl}");
    }
    assert!(wgsl.contains("var<uniform> push"), "{wgsl}");
    assert!(wgsl.contains("local_invocation_index: u32)"), "{wgsl}");
    assert!(text(Target::Msl).contains("constant Push& push [[buffer(4)]]"));
    assert!(text(Target::Hlsl).contains("register(b4"));
}

//! Description of the shaders and the cost of an op, as data: shaders with their source and interface.

use serde_json::json;

use super::Operand;
use crate::Result;
use crate::array::op_graph;
use crate::backend::vulkan::flash::FlashAttentionConfig;
use crate::backend::vulkan::{Capabilities, Variant, generated, lower, sizes};
use crate::graph::Plan;
use crate::ops::{Op, Work};

/// A shader as one dispatch of an op runs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shader {
    /// Name of the compiled variant.
    pub name: &'static str,
    /// Its GLSL with includes and macros expanded, so that it compiles standalone.
    pub source: String,
    /// Storage buffers: index, name and access.
    pub bindings: Vec<(u32, &'static str, &'static str)>,
    /// Push constants in order: name and GLSL type.
    pub push_constants: Vec<(&'static str, &'static str)>,
    /// Specialization constants: id, name, GLSL type and the value's bits.
    pub constants: Vec<(u32, &'static str, &'static str, u32)>,
    /// Invocations per workgroup along x, y and z.
    pub local_size: [u32; 3],
    /// Bytes of shared memory per workgroup with these constants.
    pub shared_memory: u32,
}

/// An op on operands of given sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// One shader per dispatch, as on a device without optional features.
    pub shaders: Vec<Shader>,
    /// Flops, and bytes of operands, result and scratch memory.
    pub work: Work,
}

pub(super) fn describe(op: &Op, operands: &[Operand], config: Option<FlashAttentionConfig>) -> Result<Description> {
    let (graph, counts) = op_graph(op, operands)?;
    let plan = Plan::new(graph);
    let work = plan.graph.nodes.first().map(|node| plan.graph.work(node, counts)).unwrap_or_default();
    let dispatches = lower(&plan, &device(config))?;
    let shaders = dispatches.iter().map(|dispatch| shader(dispatch.variant, &dispatch.constants)).collect();
    Ok(Description { shaders, work })
}

/// A device without optional features, on which any blocks of a configuration fit.
pub(crate) fn device(config: Option<FlashAttentionConfig>) -> Capabilities {
    let floor = Capabilities::floor();
    match config {
        None => floor,
        Some(_) => Capabilities { shared_memory: u32::MAX, invocations: u32::MAX, ..floor },
    }
}

/// A shader at these values of its specialization constants.
pub(crate) fn shader(variant: &'static Variant, values: &[u32]) -> Shader {
    let constants = variant.constants.iter().zip(values);
    let (local_size, shared_memory) = sizes(variant, values);
    Shader {
        name: variant.name,
        source: source(variant),
        bindings: variant.bindings.iter().map(|b| (b.index, b.name, b.access.name())).collect(),
        push_constants: variant.push.iter().map(|member| (member.name, member.scalar.glsl())).collect(),
        constants: constants.map(|(c, bits)| (c.id, c.name, c.scalar.glsl(), *bits)).collect(),
        local_size,
        shared_memory,
    }
}

/// The bits of a constant as a number or a bool.
pub(crate) fn value(kind: &str, bits: u32) -> serde_json::Value {
    match kind {
        "float" => json!(f32::from_bits(bits)),
        "int" => json!(bits as i32),
        "bool" => json!(bits != 0),
        _ => json!(bits),
    }
}

/// The source of a variant, with its included files in place and its macros after the version, without the `//#` lines
/// that declare variants.
pub(crate) fn source(variant: &Variant) -> String {
    let mut text = String::new();
    for line in variant.source.lines().filter(|line| !line.starts_with("//#")) {
        include(line, &mut text);
        if line.starts_with("#version") {
            variant.defines.iter().for_each(|(name, value)| text += &format!("#define {name} {value}\n"));
        }
    }
    text
}

fn include(line: &str, text: &mut String) {
    let name = line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"'));
    match name.and_then(|name| generated::INCLUDES.iter().find(|(known, _)| *known == name)) {
        Some((_, included)) => included.lines().for_each(|line| include(line, text)),
        None => {
            text.push_str(line);
            text.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compiler::{ShaderCompiler, ShaderCompilerConfig};
    use crate::kernels::{Kernel, ROWS};

    fn kernel(name: &str, options: serde_json::Value) -> Kernel {
        Kernel::get(name, options).unwrap()
    }

    #[test]
    fn the_source_of_a_kernel_compiles_to_its_interface() {
        let folder = std::env::temp_dir().join(format!("grilly-kernels-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for row in ROWS {
            for (option, end) in [("", ""), ("use_half", "-float16"), ("use_bfloat16", "-bfloat16")] {
                let options = if end.is_empty() { serde_json::json!({}) } else { serde_json::json!({option: true}) };
                let description = kernel(row.name, options).describe(2).unwrap();
                // The moments of the rows, and in 16 bits the sums of the columns.
                let before = if row.name == "layer_norm_linear" { 1 + usize::from(!end.is_empty()) } else { 0 };
                assert_eq!(description.shaders.len(), 1 + before, "{}", row.name);
                for shader in &description.shaders {
                    let stored = ["-float16", "-bfloat16"].into_iter().find(|stored| shader.name.ends_with(stored));
                    assert_eq!(stored.unwrap_or_default(), end, "{}", shader.name);
                    std::fs::write(folder.join("own.glsl"), &shader.source).unwrap();
                    let config = ShaderCompilerConfig {
                        shader_directory: folder.clone(),
                        enable_caching: false,
                        ..ShaderCompilerConfig::default()
                    };
                    let own = ShaderCompiler::new(config).get_compute_function("own", "main").unwrap();
                    let names: Vec<&str> = own.variant.bindings.iter().map(|b| b.name).collect();
                    let expected: Vec<&str> = shader.bindings.iter().map(|b| b.1).collect();
                    assert_eq!(names, expected, "{}", shader.name);
                    assert_eq!(own.variant.local_size, shader.local_size, "{}", shader.name);
                }
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn work_is_counted_in_bytes_of_what_is_stored() {
        let work = |use_half| {
            let options = serde_json::json!({"hidden_dim": 64, "use_half": use_half});
            kernel("residual_layer_norm", options).describe(10).unwrap().work
        };
        let (wide, half) = (work(false), work(true));
        assert_eq!((wide.bytes, half.bytes), (4 * (3 * 640 + 128), 2 * 3 * 640 + 4 * 128));
        assert_eq!((wide.flops, half.flops), (9 * 640, 9 * 640));
    }

    #[test]
    fn shared_memory_follows_the_constants() {
        let described = kernel("swiglu", serde_json::json!({})).describe(1).unwrap();
        // Tiles of 128 rows of 16 columns, at a stride of five quads.
        assert_eq!(described.shaders[0].shared_memory, 2 * 128 * 5 * 16);
    }

    #[test]
    fn what_a_kernel_does_not_have_is_refused() {
        let fault = |name: &str, options| Kernel::get(name, options).unwrap_err().to_string();
        assert!(fault("swish", serde_json::json!({})).contains("there is no kernel called \"swish\", only bias_gelu"));
        let other = fault("swiglu", serde_json::json!({"head_dim": 3}));
        assert_eq!(
            other,
            "swiglu has no option head_dim; its options are hidden_dim, intermediate_dim, use_half, use_bfloat16"
        );
        assert!(fault("swiglu", serde_json::json!({"hidden_dim": -1})).starts_with("swiglu: invalid value"));
        assert!(fault("swiglu", serde_json::json!({"hidden_dim": 0})).contains("hidden_dim is 0"));
        let heads = fault("rms_norm_rope", serde_json::json!({"hidden_dim": 100}));
        assert_eq!(heads, "rms_norm_rope: hidden_dim 100 is not a multiple of head_dim 64");
        assert!(fault("softmax_dropout", serde_json::json!({"p": 2.0})).contains("p is 2"));
    }
}

//! Valid and invalid registrations, and the shaders that run afterwards.

use std::sync::Arc;

use super::*;
use crate::backend::vulkan::{Feature, builtin, lower};
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::shaders::Registry;
use crate::graph::{Graph, Plan};
use crate::ops::{Activation, ActivationKind, Linear, Shape};

#[test]
fn a_registered_shader_is_the_one_selected() {
    let folder = Folder::new(&[("mine.glsl", &attention(BINDINGS, PUSH))]);
    register("attention-output", Some("selected-arch"), "mine", &folder.compiler()).unwrap();
    let variant = select_on_floor("attention-output", "Selected-Arch").unwrap();
    assert_eq!((variant.name, variant.push_bytes, variant.local_size), ("mine", 24, [64, 1, 1]));
    assert_eq!(shaders::read().find("attention-output", "selected-arch").unwrap().file, "mine");
    // Other architectures keep their shaders.
    assert_eq!(select_on_floor("attention-output", "").unwrap().name, "attention-output");
    assert_eq!(select_on_floor("attention-output", "gpt2").unwrap().name, "attention-output-gpt");
    // One of grilly's own shaders can be registered, too.
    register("attention-output", Some("other-arch"), "attention-output-t5", &folder.compiler()).unwrap();
    assert_eq!(select_on_floor("attention-output", "other-arch").unwrap().name, "attention-output-t5");
    let error = register("attention-output", Some("x"), "layer-norm", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
}

#[test]
fn what_differs_from_the_interface_is_named() {
    let refused = |text: String, part: &str| {
        let folder = Folder::new(&[("mine.glsl", &text)]);
        let error = register("attention-output", Some("refused"), "mine", &folder.compiler());
        let error = error.unwrap_err();
        assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let declared = |from: &str, to: &str| attention(&BINDINGS.replace(from, to), PUSH).replace(from, to);
    refused(declared("values", "vals"), "binding 1 is called \"vals\", expected \"values\"");
    refused(declared("binding = 2", "binding = 3"), "binding 3 \"y\" is not one of 0 weights, 1 values, 2 y");
    refused(declared("binding = 2", "binding = 3"), "binding 2 \"y\", the result, is missing");
    refused(declared("readonly buffer W", "buffer W"), "binding 0 \"weights\" is read and written, expected readonly");
    refused(
        attention(BINDINGS, &PUSH.replace("uint heads", "float heads")),
        "push constant \"heads\" is float, expected uint",
    );
    refused(attention(BINDINGS, &PUSH.replace("q_len", "length")), "the push constant at byte 12 is called \"length\"");
    refused(attention(BINDINGS, &format!("{PUSH} uint more;")), "push constant \"more\" at byte 24 is one too many");
    let constant = |line: &str| attention(&format!("{line}\n{BINDINGS}"), PUSH).replace("values[0]", "values[WIDTH]");
    refused(constant("layout(constant_id = 1) const uint WIDTH = 0;"), "constant_id 1 is called \"WIDTH\"");
    assert_eq!(select_on_floor("attention-output", "refused").unwrap().name, "attention-output");
    // A further constant, or only part of the push block, is allowed.
    let folder = Folder::new(&[
        ("more.glsl", &constant("layout(constant_id = 9) const uint WIDTH = 0;")),
        ("less.glsl", &attention(BINDINGS, "uint batch;")),
    ]);
    register("attention-output", Some("more"), "more", &folder.compiler()).unwrap();
    register("attention-output", Some("less"), "less", &folder.compiler()).unwrap();
    assert_eq!(select_on_floor("attention-output", "less").unwrap().push_bytes, 24);
}

#[test]
fn what_a_shader_needs_of_a_device_is_asked_of_it() {
    let half = attention(BINDINGS, PUSH)
        .replace("#extension", "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n#extension")
        .replace("float(push.batch)", "float(float16_t(push.batch))");
    let double = attention(BINDINGS, PUSH).replace("float(push.batch)", "float(double(push.batch) * weights[1])");
    let folder = Folder::new(&[("half.glsl", &half), ("double.glsl", &double)]);
    register("attention-output", Some("half"), "half", &folder.compiler()).unwrap();
    let error = select_on_floor("attention-output", "half").unwrap_err();
    assert!(matches!(error, Error::PipelineCreationFailed { .. }), "{error}");
    assert!(error.to_string().contains("it needs float16, which floor lacks"), "{error}");
    let mut capable = Capabilities::floor();
    capable.features.push(Feature::Float16);
    assert_eq!(select(&shaders::read(), "attention-output", "half", &capable).unwrap().name, "half");
    register("attention-output", Some("double"), "double", &folder.compiler()).unwrap();
    let error = select_on_floor("attention-output", "double").unwrap_err();
    assert!(error.to_string().contains("it needs float64, which floor lacks"), "{error}");
}

#[test]
fn grillys_own_shaders_of_one_name_have_one_interface() {
    let generic = builtin("attention-output").unwrap().variants[0];
    assert_eq!(
        generic.push.iter().map(|m| m.name).collect::<Vec<_>>(),
        ["batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim"]
    );
    for own in ["bigbird", "global-window", "gpt", "llama", "t5", "windowed"] {
        let specific = builtin(&format!("attention-output-{own}")).unwrap().variants[0];
        assert_eq!((specific.bindings, specific.push), (generic.bindings, generic.push), "{own}");
        assert_eq!(specific.constants, generic.constants, "{own}");
    }
}

#[test]
fn a_name_that_would_never_be_dispatched_is_refused() {
    let folder = Folder::new(&[("mine.glsl", &elementwise("x[i]"))]);
    let error = register("attention-concat-heads", None, "mine", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("register \"attention-output\""), "{error}");
    // The names that upstream registers add no new interface.
    for name in ["activation-gelu", "attention-concat-heads"] {
        register(name, None, name, &folder.compiler()).unwrap();
    }
    // A user's own name is stored with its file.
    register("my-own-shader", None, "mine", &folder.compiler()).unwrap();
    assert_eq!(shaders::read().find("my-own-shader", "gpt").unwrap().file, "mine");
    let error = register("attention-output", Some("a"), "nothing", &folder.compiler()).unwrap_err();
    assert!(matches!(error, Error::ShaderNotFound { .. }), "{error}");
}

/// `y = x` with the interface of the kernel `activation`.
fn activation() -> String {
    elementwise("x[i]").replace("binding = 1", "binding = 2").replace("binding = 0", "binding = 1")
}

#[test]
fn a_shared_kernel_is_replaced_for_the_attributes_that_a_name_stands_for() {
    let folder = Folder::new(&[("gelu.glsl", &activation()), ("all.glsl", &activation())]);
    // Under architectures used only by this test, since the registry is shared by the process.
    let place = Some("shared-kernels");
    register("activation-gelu", place, "gelu", &folder.compiler()).unwrap();
    let before = shaders::read();
    register("activation", place, "all", &folder.compiler()).unwrap();
    let runs = |kind: ActivationKind, architecture: &str, shaders: &Arc<Registry>| {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::fixed(&[64]), DType::F32);
        let y = graph.node("y", Activation::from(kind), &[x]).unwrap();
        graph.outputs = vec![y];
        let fusion = Fusion { architecture, shaders, ..Fusion::default() };
        let dispatches = lower(&Plan::with(graph, &fusion).unwrap(), &Capabilities::floor()).unwrap();
        dispatches[0].variant.name
    };
    for (kind, first, second) in [
        (ActivationKind::GeluErf, "gelu", "gelu"),
        (ActivationKind::GeluTanh, "gelu", "gelu"),
        (ActivationKind::Relu, "activation", "all"),
        (ActivationKind::Tanh, "activation", "all"),
    ] {
        assert_eq!(runs(kind, "shared-kernels", &before), first, "{kind:?}");
        assert_eq!(runs(kind, "shared-kernels", &shaders::read()), second, "{kind:?}");
        assert_eq!(runs(kind, "", &shaders::read()), "activation", "{kind:?}: other architectures keep theirs");
    }
    let error = register("fnn-residual", place, "gelu", &folder.compiler()).unwrap_err().to_string();
    assert!(error.contains("the interface of \"fnn-residual\""), "{error}");
}

#[test]
fn a_shader_is_dispatched_only_where_its_interface_is() {
    let product = elementwise("x[i]").replace("binding = 1", "binding = 5").replace("binding = 0", "binding = 1");
    let folder = Folder::new(&[("product.glsl", &product)]);
    register("fnn-linear", Some("products"), "product", &folder.compiler()).unwrap();
    let mut capable = Capabilities::floor();
    (capable.features, capable.subgroup_size) = (Feature::ALL.to_vec(), 32);
    for (dtype, expected) in [(DType::F32, Some("product")), (DType::F16, None)] {
        let mut graph = Graph::new();
        let [x, weight] = [[64, 32], [16, 32]].map(|axes| graph.input("x", Shape::fixed(&axes), dtype));
        let y = graph.node("y", Linear::default(), &[x, weight]).unwrap();
        graph.outputs = vec![y];
        let fusion = Fusion { architecture: "products", shaders: &shaders::read(), ..Fusion::default() };
        let lowered = lower(&Plan::with(graph, &fusion).unwrap(), &capable);
        assert_eq!(lowered.ok().map(|dispatches| dispatches[0].variant.name), expected, "{dtype:?}");
    }
}

//! The process' registry of shaders: those that grilly ships for the architectures of `arch`, and users' registrations.

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::arch::{ARCHITECTURES, Architecture};
use crate::graph::shaders::{ATTENTION_OUTPUT, Registry, Row};
use crate::graph::split;
use crate::ops::Attention;
use crate::ops::attention_output::FAMILIES;

static SHIPPED: LazyLock<Arc<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::default();
    for row in ARCHITECTURES {
        let Some(shaders) = row.shaders else { continue };
        let family = FAMILIES.iter().find(|family| family.name == shaders.family).expect("a row of FAMILIES");
        registry.register(ATTENTION_OUTPUT, Some(shaders.name), Row::own(family.shader));
        if row.model_type != shaders.name {
            registry.register_architecture(row.model_type, shaders.name).expect("names that are not empty");
        }
    }
    Arc::new(registry)
});

static REGISTRY: LazyLock<RwLock<Arc<Registry>>> = LazyLock::new(|| RwLock::new(Arc::new(shipped())));

/// The registry as shipped.
pub fn shipped() -> Registry {
    Registry::over(&SHIPPED)
}

/// A snapshot of the process' registry; later changes do not affect it.
pub fn read() -> Arc<Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Changes the process' registry.
pub fn change<T>(change: impl FnOnce(&mut Registry) -> T) -> T {
    change(Arc::make_mut(&mut REGISTRY.write().unwrap_or_else(PoisonError::into_inner)))
}

/// What a user should know who registered `shader` for an architecture: which models do not run it, and why.
pub fn unused(registry: &Registry, shader: &str, architecture: &str) -> Option<String> {
    let entry = registry.find(shader, architecture)?;
    let every = Attention { soft_cap: 1.0, window: 1, bias: true, ..Attention::default() };
    let parts = split::parts(&every, architecture);
    let kept = |row: &&Architecture| {
        row.whole.is_some()
            && parts.iter().any(|(op, operands)| {
                let found = registry.in_place_of(op, *operands, row.model_type);
                found.is_some_and(|(name, row)| name == shader && std::ptr::eq(row, entry))
            })
    };
    let kept: Vec<&Architecture> = ARCHITECTURES.iter().filter(kept).collect();
    let types: Vec<&str> = kept.iter().map(|row| row.model_type).collect();
    let reason = kept.first()?.whole?;
    Some(format!(
        "{shader} is registered for {architecture}, but attention of {} models stays fused ({reason}), so that encode does \
         not run {}; operations such as attention_output do",
        types.join(" and "),
        entry.file
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Activation, ActivationKind, AttentionOutput, Op, Pattern, RmsNorm};

    #[test]
    fn an_architecture_gets_its_own_shader_and_else_the_generic_one() {
        let mut registry = shipped();
        let file = |registry: &Registry, name: &str| registry.find(ATTENTION_OUTPUT, name).unwrap().file.clone();
        for (name, expected) in [
            ("", "attention-output"),
            ("bert", "attention-output"),
            ("GPT", "attention-output-gpt"),
            ("gpt2", "attention-output-gpt"),
            ("gpt_neox", "attention-output-gpt"),
            ("granite", "attention-output-gpt"),
            ("mt5", "attention-output-t5"),
            ("mistral", "attention-output-llama"),
            ("phi3", "attention-output-llama"),
            ("big_bird", "attention-output-bigbird"),
        ] {
            assert_eq!(file(&registry, name), expected, "{name}");
        }
        assert_eq!(registry.find("nothing", "gpt"), None);
        registry.register_architecture("My_Model", "T5").unwrap();
        assert_eq!(file(&registry, "my_model"), "attention-output-t5");
        assert!(registry.register_architecture("", "t5").is_err());
        // An entry for the type itself precedes that of its architecture.
        registry.register(ATTENTION_OUTPUT, Some("Gpt2"), Row::users("mine", 0));
        assert_eq!((file(&registry, "gpt2"), file(&registry, "gpt")), ("mine".into(), "attention-output-gpt".into()));
        registry.unregister(ATTENTION_OUTPUT, Some("GPT2"));
        assert_eq!(file(&registry, "gpt2"), "attention-output-gpt");
        for architecture in [None, Some("t5")] {
            let name = architecture.unwrap_or("");
            let before = file(&registry, name);
            registry.register(ATTENTION_OUTPUT, architecture, Row::users("mine", 0));
            assert_eq!(file(&registry, name), "mine");
            registry.unregister(ATTENTION_OUTPUT, architecture);
            assert_eq!(file(&registry, name), before);
        }
    }

    #[test]
    fn shaders_of_a_user_are_distinguished_from_shipped_ones() {
        let mut registry = shipped();
        let attention = |name: &str| (AttentionOutput { architecture: name.into(), ..Default::default() }.into(), 2);
        let gelu = (Activation::from(ActivationKind::GeluTanh).into(), 1);
        let relu: (Op, usize) = (Activation::from(ActivationKind::Relu).into(), 1);
        let changed = |registry: &Registry, (op, operands): &(Op, usize), architecture: &str| {
            registry.in_place_of(op, *operands, architecture).map(|(_, row)| row.file.clone())
        };
        let output: (Op, usize) = attention("bert");
        for architecture in ["bert", "gpt2", "t5", ""] {
            assert_eq!(changed(&registry, &output, architecture), None, "{architecture}");
        }
        registry.register(ATTENTION_OUTPUT, Some("bert"), Row::users("mine", 3));
        registry.register("activation-gelu", None, Row::users("my-gelu", 3));
        assert_eq!(changed(&registry, &output, "bert"), Some("mine".into()));
        assert_eq!(changed(&registry, &output, "roberta"), None);
        assert_eq!(
            (changed(&registry, &gelu, "bert"), changed(&registry, &relu, "bert")),
            (Some("my-gelu".into()), None)
        );
        // Ops without a registered name use the name of their kernel.
        registry.register("rms-norm", Some("bert"), Row::users("my-norm", 3));
        let norm = (RmsNorm { eps: 1e-6 }.into(), 2);
        let norms = ["bert", "roberta"].map(|name| changed(&registry, &norm, name));
        assert_eq!(norms, [Some("my-norm".into()), None]);
        // One of grilly's own shaders replacing another is a change; in its own place it is not.
        registry.register_architecture("roberta", "gpt").unwrap();
        assert_eq!(changed(&registry, &output, "roberta"), Some("attention-output-gpt".into()));
        registry.register(ATTENTION_OUTPUT, Some("bert"), Row::own("attention-output"));
        assert_eq!(changed(&registry, &output, "bert"), None);
        registry.ask(ATTENTION_OUTPUT, "bert");
        assert_eq!(changed(&registry, &output, "bert"), Some("attention-output".into()));
        registry.unregister(ATTENTION_OUTPUT, Some("bert"));
        assert_eq!(changed(&registry, &output, "bert"), None);
    }

    #[test]
    fn registering_a_shader_that_models_do_not_run_gives_a_warning() {
        let mut registry = shipped();
        let told = |registry: &Registry, shader: &str, name: &str| unused(registry, shader, name);
        let whole = ARCHITECTURES.iter().find(|row| row.whole.is_some()).unwrap().model_type;
        assert_eq!(told(&registry, ATTENTION_OUTPUT, whole), None, "grilly's own");
        for shader in [ATTENTION_OUTPUT, "activation-softmax", "softmax", "attention-scores", "attention-bias"] {
            registry.register(shader, Some(whole), Row::users("mine", 0));
            let text = told(&registry, shader, whole).unwrap();
            assert!(text.contains(&format!("attention of {whole} models stays fused (its scores")), "{text}");
            registry.unregister(shader, Some(whole));
        }
        registry.register("layer-norm", Some(whole), Row::users("mine", 0));
        assert_eq!(told(&registry, "layer-norm", whole), None);
        registry.register(ATTENTION_OUTPUT, Some("llama"), Row::users("mine", 0));
        assert_eq!(told(&registry, ATTENTION_OUTPUT, "llama"), None);
        // The type of a model is not the name under which its shaders are registered.
        registry.register_architecture(whole, "llama").unwrap();
        assert!(told(&registry, ATTENTION_OUTPUT, "llama").is_some());
        registry.register(ATTENTION_OUTPUT, Some(whole), Row::users("another", 1));
        assert_eq!(told(&registry, ATTENTION_OUTPUT, "llama"), None);
    }

    #[test]
    fn a_shipped_shader_has_the_pattern_of_its_family_for_whomever_it_serves() {
        let mut registry = shipped();
        for row in FAMILIES {
            registry.register(ATTENTION_OUTPUT, Some("mine"), Row::own(row.shader));
            assert_eq!(registry.find(ATTENTION_OUTPUT, "mine").unwrap().pattern, row.pattern, "{}", row.name);
            let served = ARCHITECTURES.iter().filter_map(|row| row.shaders).any(|shaders| shaders.family == row.name);
            assert!(row.name == "full" || served, "{}", row.name);
        }
        let pattern = |registry: &Registry, name: &str| registry.find(ATTENTION_OUTPUT, name).unwrap().pattern;
        assert_eq!((pattern(&registry, "GPT2"), pattern(&registry, "bert")), (Pattern::Causal, Pattern::Full));
        // A file registered by a user is the user's, whatever its name.
        registry.register(ATTENTION_OUTPUT, Some("mine"), Row::users("attention-output-gpt", 0));
        assert_eq!(pattern(&registry, "mine"), Pattern::Full);
    }

    #[test]
    fn every_shipped_name_has_a_shader() {
        let names = shipped().list(None);
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "sorted");
        #[cfg(feature = "vulkan")]
        for name in names {
            let kernel = crate::backend::vulkan::builtin(&name);
            assert_ne!(kernel.is_some(), crate::graph::shaders::instead_of(&name).is_some(), "{name}");
        }
        #[cfg(feature = "vulkan")]
        for family in FAMILIES {
            assert!(crate::backend::vulkan::builtin(family.shader).is_some(), "{}", family.shader);
        }
    }
}

//! Which shader serves an architecture: names only, whatever runs them.
//!
//! ```text
//! model_type ── architectures ─▶ architecture ─┐
//! shader's name ───────────────────────────────┴ specific, else generic ─▶ Row {file, user}
//! Op, attributes ── names_of ─▶ shader's names
//! ```
//! The process' registry decides what is dispatched; others of the type are lists of names. A program takes the registry
//! as it is when it is prepared, and keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::ops::reduce::Stage;
use crate::ops::{ActivationKind, Binary, BinaryKind, Op};
use crate::{Error, Result};

/// The name under which `attention_output` looks for its shader.
pub const ATTENTION_OUTPUT: &str = "attention-output";

/// The names under which a shader can be registered to run an op, the most particular first, where they are not the op's
/// name with hyphens alone. `operands` is how many the op has.
pub fn names_of(op: &Op, operands: usize) -> &'static [&'static str] {
    match op {
        Op::Activation(activation) => match activation.kind {
            ActivationKind::GeluErf | ActivationKind::GeluTanh => &["activation-gelu", "activation"],
            ActivationKind::Relu => &["activation-relu", "activation"],
            ActivationKind::Silu => &["activation-silu", "activation"],
            _ => &["activation"],
        },
        Op::AttentionOutput(_) => &[ATTENTION_OUTPUT],
        Op::AttentionScores(_) => &["attention-scores", "matmul"],
        Op::Binary(Binary { kind: BinaryKind::Add }) => &["fnn-residual", "binary"],
        Op::Binary(_) => &["binary"],
        Op::Dropout(_) => &["fnn-dropout", "dropout"],
        // One index and one table.
        Op::EmbeddingSum(_) if operands == 2 => &["embedding-lookup", "embedding-sum"],
        Op::LayerNorm(_) => &["fnn-layernorm", "layer-norm"],
        Op::Linear(_) => &["fnn-linear", "linear"],
        Op::Normalize(_) => &["embedding-normalize", "normalize"],
        Op::Pool(_) => &["embedding-pool", "pool"],
        // With a weight for each token.
        Op::Reduce(reduce) if operands == 2 || matches!(reduce.stage, Stage::Join { weighted: true, .. }) => {
            &["embedding-pool-mask", "reduce"]
        }
        Op::Softmax(_) => &["activation-softmax", "softmax"],
        _ => &[],
    }
}

/// What to register in place of a name that no kernel runs under.
pub fn instead_of(shader: &str) -> Option<&'static str> {
    match shader {
        "attention-concat-heads" => Some(
            "heads lie side by side already in the result of \"attention-output\", so joining them moves nothing and runs \
             no shader; register \"attention-output\"",
        ),
        _ => None,
    }
}

/// Generic shaders, each served by the file of its name.
const GENERIC: &[&str] = &[
    "activation-gelu",
    "activation-relu",
    "activation-silu",
    "activation-softmax",
    "attention-concat-heads",
    "attention-mask",
    ATTENTION_OUTPUT,
    "attention-scores",
    "embedding-lookup",
    "embedding-normalize",
    "embedding-pool",
    "embedding-pool-mask",
    "fnn-dropout",
    "fnn-layernorm",
    "fnn-linear",
    "fnn-residual",
    "rope",
];

/// Architecture and file, all of `attention-output`.
const SPECIFIC: &[(&str, &str)] = &[
    ("bigbird", "attention-output-bigbird"),
    ("gpt", "attention-output-gpt"),
    ("granite", "attention-output-gpt"),
    ("llama", "attention-output-llama"),
    ("longformer", "attention-output-global-window"),
    ("modernbert", "attention-output-windowed"),
    ("t5", "attention-output-t5"),
];

/// `model_type` of a `config.json` and its architecture, where the names differ.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("big_bird", "bigbird"),
    ("bigbird_pegasus", "bigbird"),
    ("gpt2", "gpt"),
    ("gpt_bigcode", "gpt"),
    ("gpt_neo", "gpt"),
    ("gpt_neox", "gpt"),
    ("gptj", "gpt"),
    ("gemma", "llama"),
    ("gemma2", "llama"),
    ("led", "longformer"),
    ("mistral", "llama"),
    ("mt5", "t5"),
    ("qwen2", "llama"),
    ("qwen3", "llama"),
    ("umt5", "t5"),
];

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The file's name as it was registered, without its ending.
    pub file: String,
    /// Which of the users' shaders it is, by the number that the backend gave it; `None` for one of grilly's own.
    pub user: Option<usize>,
}

/// Shaders by name and architecture.
#[derive(Debug, Clone)]
pub struct Registry {
    generic: BTreeMap<String, Row>,
    specific: BTreeMap<(String, String), Row>,
    architectures: BTreeMap<String, String>,
}

impl Default for Registry {
    /// What grilly ships.
    fn default() -> Self {
        let row = |file: &str| Row { file: file.into(), user: None };
        Registry {
            generic: GENERIC.iter().map(|name| ((*name).into(), row(name))).collect(),
            specific: (SPECIFIC.iter())
                .map(|(architecture, file)| ((ATTENTION_OUTPUT.into(), (*architecture).into()), row(file)))
                .collect(),
            architectures: ARCHITECTURES.iter().map(|(model, name)| ((*model).into(), (*name).into())).collect(),
        }
    }
}

impl Registry {
    /// Makes `row` the shader of every architecture that has no own.
    pub fn register_generic(&mut self, shader: &str, row: Row) {
        self.generic.insert(shader.to_owned(), row);
    }

    /// Makes `row` the shader of one architecture.
    pub fn register_specific(&mut self, shader: &str, architecture: &str, row: Row) {
        self.specific.insert((shader.to_owned(), architecture.to_lowercase()), row);
    }

    /// Puts what grilly ships in the place of the entry of one architecture, or of the generic one; if it ships none,
    /// there is none then.
    pub fn unregister(&mut self, shader: &str, architecture: Option<&str>) {
        match architecture {
            None => restore(&mut self.generic, &SHIPPED.generic, shader.to_owned()),
            Some(architecture) => {
                restore(&mut self.specific, &SHIPPED.specific, (shader.to_owned(), architecture.to_lowercase()));
            }
        }
    }

    /// Makes models of a type use the shaders of an architecture.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty name.
    pub fn register_architecture(&mut self, model_type: &str, architecture: &str) -> Result<()> {
        if model_type.is_empty() || architecture.is_empty() {
            return Err(Error::InvalidArgument("register_architecture: an empty name".into()));
        }
        self.architectures.insert(model_type.to_lowercase(), architecture.to_lowercase());
        Ok(())
    }

    /// The architecture of a `model_type`: its own name where no row says otherwise.
    pub fn architecture(&self, model_type: &str) -> String {
        let name = model_type.to_lowercase();
        self.architectures.get(&name).cloned().unwrap_or(name)
    }

    /// The entry of `shader` for an architecture or `model_type` (empty for none), else the generic one.
    pub fn find(&self, shader: &str, architecture: &str) -> Option<&Row> {
        self.find_specific(shader, architecture).or_else(|| self.generic.get(shader))
    }

    /// The entry that is the architecture's own.
    pub fn find_specific(&self, shader: &str, architecture: &str) -> Option<&Row> {
        if architecture.is_empty() {
            return None;
        }
        let own = |name: String| self.specific.get(&(shader.to_owned(), name));
        own(architecture.to_lowercase()).or_else(|| own(self.architecture(architecture)))
    }

    /// Name and entry of what runs `op` for an architecture in place of what grilly ships; `None` where grilly's own runs.
    pub fn in_place_of(&self, op: &Op, operands: usize, architecture: &str) -> Option<(&'static str, &Row)> {
        let changed = |name: &&'static str| {
            let row = self.find(name, architecture)?;
            let other = || SHIPPED.find(name, architecture).is_some_and(|own| own.file != row.file);
            (row.user.is_some() || other()).then_some((*name, row))
        };
        names_of(op, operands).iter().find_map(changed)
    }

    /// Names of all shaders, or of those with an entry of the architecture's own or a generic one; sorted.
    pub fn list(&self, architecture: Option<&str>) -> Vec<String> {
        let specific = self.specific.keys().filter(|(shader, _)| {
            architecture.is_none_or(|architecture| self.find_specific(shader, architecture).is_some())
        });
        let names: BTreeSet<&String> = self.generic.keys().chain(specific.map(|(shader, _)| shader)).collect();
        names.into_iter().cloned().collect()
    }
}

fn restore<K: Ord>(rows: &mut BTreeMap<K, Row>, shipped: &BTreeMap<K, Row>, key: K) {
    match shipped.get(&key) {
        Some(row) => drop(rows.insert(key, row.clone())),
        None => drop(rows.remove(&key)),
    }
}

/// The registry nobody changed.
static SHIPPED: LazyLock<Registry> = LazyLock::new(Registry::default);

static REGISTRY: LazyLock<RwLock<Arc<Registry>>> = LazyLock::new(RwLock::default);

/// The process' registry as it is now; later changes leave what is returned alone.
pub fn read() -> Arc<Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Changes the process' registry.
pub fn change<T>(change: impl FnOnce(&mut Registry) -> T) -> T {
    change(Arc::make_mut(&mut REGISTRY.write().unwrap_or_else(PoisonError::into_inner)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Activation, AttentionOutput};

    #[test]
    fn an_architecture_gets_its_own_shader_and_else_the_generic_one() {
        let mut registry = Registry::default();
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
            ("big_bird", "attention-output-bigbird"),
        ] {
            assert_eq!(file(&registry, name), expected, "{name}");
        }
        assert_eq!(registry.find("nothing", "gpt"), None);
        registry.register_architecture("My_Model", "T5").unwrap();
        assert_eq!(file(&registry, "my_model"), "attention-output-t5");
        assert!(registry.register_architecture("", "t5").is_err());
        // A row of the type's own goes before that of its architecture.
        let own = Row { file: "mine".into(), user: Some(0) };
        registry.register_specific(ATTENTION_OUTPUT, "Gpt2", own);
        assert_eq!((file(&registry, "gpt2"), file(&registry, "gpt")), ("mine".into(), "attention-output-gpt".into()));
        registry.unregister(ATTENTION_OUTPUT, Some("GPT2"));
        assert_eq!(file(&registry, "gpt2"), "attention-output-gpt");
        for architecture in [None, Some("t5")] {
            let name = architecture.unwrap_or("");
            let before = file(&registry, name);
            let mine = Row { file: "mine".into(), user: Some(0) };
            match architecture {
                None => registry.register_generic(ATTENTION_OUTPUT, mine),
                Some(name) => registry.register_specific(ATTENTION_OUTPUT, name, mine),
            }
            assert_eq!(file(&registry, name), "mine");
            registry.unregister(ATTENTION_OUTPUT, architecture);
            assert_eq!(file(&registry, name), before);
        }
    }

    #[test]
    fn what_a_user_changed_is_told_from_what_is_shipped() {
        let mut registry = Registry::default();
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
        let mine = |name: &str| Row { file: name.into(), user: Some(3) };
        registry.register_specific(ATTENTION_OUTPUT, "bert", mine("mine"));
        registry.register_generic("activation-gelu", mine("my-gelu"));
        assert_eq!(changed(&registry, &output, "bert"), Some("mine".into()));
        assert_eq!(changed(&registry, &output, "roberta"), None);
        assert_eq!(
            (changed(&registry, &gelu, "bert"), changed(&registry, &relu, "bert")),
            (Some("my-gelu".into()), None)
        );
        // One of grilly's own in another's place is a change, in its own place it is none.
        registry.register_architecture("roberta", "gpt").unwrap();
        assert_eq!(changed(&registry, &output, "roberta"), Some("attention-output-gpt".into()));
        registry.register_specific(ATTENTION_OUTPUT, "bert", Row { file: "attention-output".into(), user: None });
        assert_eq!(changed(&registry, &output, "bert"), None);
    }

    #[test]
    fn every_shipped_row_has_a_shader() {
        let registry = Registry::default();
        assert!(registry.list(None).windows(2).all(|pair| pair[0] < pair[1]), "sorted");
        #[cfg(feature = "vulkan")]
        for row in registry.specific.values() {
            assert!(crate::backend::vulkan::builtin(&row.file).is_some(), "{}", row.file);
        }
        #[cfg(feature = "vulkan")]
        for name in registry.generic.keys() {
            let kernel = crate::backend::vulkan::builtin(name);
            assert_ne!(kernel.is_some(), instead_of(name).is_some(), "{name}");
        }
    }
}

//! Selection of shaders by architecture: names only, independent of the backend.
//!
//! ```text
//! model_type ── architectures ─▶ architecture ─┐
//! shader's name ───────────────────────────────┴ specific, else generic ─▶ Row {file, user, pattern}
//! Op, attributes ── NAMES ─▶ shader's names, kernel
//! ```
//! A plan keeps the registry with which it was made. Other values of the type are lists of names.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::error::named;
use crate::numerics::Numerics;
use crate::ops::attention_output::FAMILIES;
use crate::ops::reduce::Stage;
use crate::ops::{ActivationKind, Binary, BinaryKind, Op, Pattern};
use crate::{Error, Result};

/// The name under which the shader of `attention_output` is looked up.
pub const ATTENTION_OUTPUT: &str = "attention-output";

/// A name under which a shader can be registered; its generic entry is one of grilly's own shaders.
pub struct Name {
    /// The name.
    pub shader: &'static str,
    /// The kernel whose interface it has.
    pub kernel: &'static str,
    /// Whether it serves an op with this number of operands.
    pub serves: fn(&Op, usize) -> bool,
}

const fn name(shader: &'static str, kernel: &'static str, serves: fn(&Op, usize) -> bool) -> Name {
    Name { shader, kernel, serves }
}

/// All names, in alphabetical order. A shader can also be registered under the name of any kernel.
pub const NAMES: &[Name] = &[
    name("activation-gelu", "activation", |op, _| activation(op, &[ActivationKind::GeluErf, ActivationKind::GeluTanh])),
    name("activation-relu", "activation", |op, _| activation(op, &[ActivationKind::Relu])),
    name("activation-silu", "activation", |op, _| activation(op, &[ActivationKind::Silu])),
    name("activation-softmax", "softmax", |op, _| matches!(op, Op::Softmax(_))),
    name("attention-concat-heads", "attention-concat-heads", |_, _| false),
    name("attention-mask", "attention-mask", |op, _| matches!(op, Op::AttentionMask(_))),
    name(ATTENTION_OUTPUT, ATTENTION_OUTPUT, |op, _| matches!(op, Op::AttentionOutput(_))),
    name("attention-scores", "matmul", |op, _| matches!(op, Op::AttentionScores(_))),
    // One index and one table.
    name("embedding-lookup", "embedding-sum", |op, operands| matches!(op, Op::EmbeddingSum(_)) && operands == 2),
    name("embedding-normalize", "normalize", |op, _| matches!(op, Op::Normalize(_))),
    name("embedding-pool", "pool", |op, _| matches!(op, Op::Pool(_))),
    // With a weight per token.
    name("embedding-pool-mask", "reduce", |op, operands| match op {
        Op::Reduce(reduce) => operands == 2 || matches!(reduce.stage, Stage::Join { weighted: true, .. }),
        _ => false,
    }),
    name("fnn-dropout", "dropout", |op, _| matches!(op, Op::Dropout(_))),
    name("fnn-layernorm", "layer-norm", |op, _| matches!(op, Op::LayerNorm(_))),
    name("fnn-linear", "linear", |op, _| matches!(op, Op::Linear(_))),
    name("fnn-residual", "binary", |op, _| matches!(op, Op::Binary(Binary { kind: BinaryKind::Add }))),
    name("oja-learning", "add-scaled", |op, _| matches!(op, Op::AddScaled(_))),
    name("rope", "rope", |op, _| matches!(op, Op::Rope(_))),
    name("sanger-gha", "add-scaled", |op, _| matches!(op, Op::AddScaled(_))),
];

fn activation(op: &Op, kinds: &[ActivationKind]) -> bool {
    matches!(op, Op::Activation(activation) if kinds.contains(&activation.kind))
}

/// The names under which a shader can be registered to run an op, most specific first: the op's entries in [`NAMES`],
/// the names of their kernels, and the op's own name with hyphens.
fn names_of(op: &Op, operands: usize) -> impl Iterator<Item = String> {
    let serving = || NAMES.iter().filter(move |name| (name.serves)(op, operands));
    let names: Vec<&str> = serving().map(|name| name.shader).chain(serving().map(|name| name.kernel)).collect();
    names.into_iter().map(str::to_owned).chain([op.name().replace('_', "-")])
}

/// Advice on what to register instead of a name that no kernel uses.
pub fn instead_of(shader: &str) -> Option<&'static str> {
    match shader {
        "attention-concat-heads" => Some(
            "heads lie side by side already in the result of \"attention-output\", so joining them moves nothing and runs \
             no shader; register \"attention-output\"",
        ),
        _ => None,
    }
}

/// One entry of a [`Registry`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The file's name as registered, without its extension.
    pub file: String,
    /// Index of a user's shader, as assigned by the backend; `None` for one of grilly's own.
    pub user: Option<usize>,
    /// Whether models run it where grilly would choose a kernel that fuses it: a user's shader, or one of grilly's own that
    /// a user asked for.
    pub asked: bool,
    /// For `attention_output`: the weights that the shader uses unchanged. What a user's shader leaves out is unknown
    /// here, which makes no difference where the weights are zero.
    pub pattern: Pattern,
}

impl Row {
    /// One of grilly's own shaders, with the pattern of its family.
    pub fn own(shader: &str) -> Self {
        let family = FAMILIES.iter().find(|family| family.shader == shader);
        let pattern = family.map_or(Pattern::Full, |family| family.pattern);
        Row { file: shader.to_owned(), user: None, asked: false, pattern }
    }

    /// A user's shader with its index.
    pub fn users(file: &str, number: usize) -> Self {
        Row { file: file.to_owned(), user: Some(number), asked: true, pattern: Pattern::Full }
    }
}

/// How products of float32 numbers run on a device with matrix cores for float16.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Float32Products {
    /// On them, each number as the sum of two float16 numbers times a power of two.
    #[default]
    Split,
    /// As on devices without: a chain of float32 operations.
    Plain,
}

impl Float32Products {
    /// All, with the names that users give them.
    pub const NAMES: [(&str, Float32Products); 2] = [("split", Self::Split), ("plain", Self::Plain)];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, of)| *of == self).expect("a row of NAMES").0
    }
}

impl FromStr for Float32Products {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        named("float32_products", name, Self::NAMES)
    }
}

/// Shaders by name and architecture.
#[derive(Debug, Clone)]
pub struct Registry {
    /// How float32 products run.
    pub float32_products: Float32Products,
    /// What the numbers of plans mean.
    pub numerics: Numerics,
    /// Entries by name and architecture, `None` for the generic entry.
    rows: BTreeMap<(String, Option<String>), Row>,
    architectures: BTreeMap<String, String>,
    /// The registry as shipped; `None` in the shipped registry itself.
    shipped: Option<Arc<Registry>>,
}

impl Default for Registry {
    /// The shaders that grilly ships, for every architecture.
    fn default() -> Self {
        let rows = NAMES.iter().map(|name| (key(name.shader, None), Row::own(name.shader))).collect();
        let (float32_products, numerics) = Default::default();
        Registry { float32_products, numerics, rows, architectures: BTreeMap::new(), shipped: None }
    }
}

impl Registry {
    /// The registry of plans without an architecture.
    pub fn generic() -> &'static Arc<Self> {
        static ALL: LazyLock<Arc<Registry>> = LazyLock::new(Arc::default);
        &ALL
    }

    /// A registry that starts as a copy of the shipped one.
    pub fn over(shipped: &Arc<Self>) -> Self {
        Registry { shipped: Some(shipped.clone()), ..Registry::clone(shipped) }
    }

    /// Makes `row` the shader of one architecture, or of every architecture without its own.
    pub fn register(&mut self, shader: &str, architecture: Option<&str>, row: Row) {
        self.rows.insert(key(shader, architecture), row);
    }

    /// Makes models of an architecture run its entry where grilly would choose a kernel that fuses it.
    pub fn ask(&mut self, shader: &str, architecture: &str) {
        if let Some(row) = self.rows.get_mut(&key(shader, Some(architecture))) {
            row.asked = true;
        }
    }

    /// Restores the shipped entry of one architecture, or the generic one; removes the entry if none is shipped.
    pub fn unregister(&mut self, shader: &str, architecture: Option<&str>) {
        let key = key(shader, architecture);
        match self.shipped.as_ref().and_then(|shipped| shipped.rows.get(&key)) {
            Some(row) => drop(self.rows.insert(key, row.clone())),
            None => drop(self.rows.remove(&key)),
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

    /// The entry of `shader` for an architecture or `model_type` (empty for none), else the generic one.
    pub fn find(&self, shader: &str, architecture: &str) -> Option<&Row> {
        let entry = |architecture: Option<&str>| self.rows.get(&key(shader, architecture));
        let of_type = || entry(Some(self.architectures.get(&architecture.to_lowercase())?));
        let named = Some(architecture).filter(|name| !name.is_empty());
        named.and_then(|_| entry(named).or_else(of_type)).or_else(|| entry(None))
    }

    /// Name and entry of the shader that a user registered for `op` and an architecture; `None` where grilly chooses the
    /// kernel.
    pub fn in_place_of(&self, op: &Op, operands: usize, architecture: &str) -> Option<(String, &Row)> {
        let shipped = self.shipped.as_deref().unwrap_or(self);
        let changed = |name: String| {
            let row = self.find(&name, architecture)?;
            let other = || shipped.find(&name, architecture).is_some_and(|own| own.file != row.file);
            (row.asked || other()).then_some((name, row))
        };
        names_of(op, operands).find_map(changed)
    }

    /// Names of all shaders, sorted; for an architecture, of those with an entry of its own or a generic one.
    pub fn list(&self, architecture: Option<&str>) -> Vec<String> {
        let found = |name: &&String| architecture.is_none_or(|architecture| self.find(name, architecture).is_some());
        let names: BTreeSet<&String> = self.rows.keys().map(|(name, _)| name).filter(found).collect();
        names.into_iter().cloned().collect()
    }
}

fn key(shader: &str, architecture: Option<&str>) -> (String, Option<String>) {
    (shader.to_owned(), architecture.map(str::to_lowercase))
}

//! Cache of prepared calls: most programs repeat a small set of calls.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use super::Array;
use super::ready::Ready;
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::shaders::Registry;
use crate::numerics::Numerics;
use crate::ops::Op;

/// An op with a hash of its attributes, computed once for many calls.
///
/// ```
/// use grilly::array::Hashed;
/// use grilly::ops::LayerNorm;
/// let op = Hashed::from(LayerNorm { eps: 0.5 });
/// assert_eq!(op.op().name(), "layer_norm");
/// ```
#[derive(Debug, Clone)]
pub struct Hashed {
    op: Op,
    hash: u64,
}

impl Hashed {
    /// The op.
    pub fn op(&self) -> &Op {
        &self.op
    }
}

impl<T: Into<Op>> From<T> for Hashed {
    /// Hashes the attributes as text, since a comparison would not distinguish 0 from -0; of an op whose calls do not
    /// [recur](Op::recurs) the name alone, so that of its calls on given shapes only the latest is cached.
    fn from(op: T) -> Self {
        let op = op.into();
        let mut hasher = Text(DefaultHasher::new());
        // Writing to a hasher cannot fail.
        let _ = if Op::recurs(op.name()) { write!(hasher, "{op:?}") } else { hasher.write_str(op.name()) };
        Hashed { hash: hasher.0.finish(), op }
    }
}

/// Calls per generation; there are two generations.
const MOST: usize = 256;

/// The prepared form of an op for operands of given shapes and types.
pub(super) struct Call {
    op: Op,
    architecture: String,
    numerics: Numerics,
    operands: Vec<(Vec<usize>, DType)>,
    pub(super) ready: Ready,
}

impl Call {
    pub(super) fn new(fusion: &Fusion<'_>, op: &Op, operands: &[&Array], ready: Ready) -> Self {
        Call {
            op: op.clone(),
            architecture: fusion.architecture.to_owned(),
            numerics: fusion.numerics,
            operands: operands.iter().map(|x| (x.shape.clone(), x.dtype)).collect(),
            ready,
        }
    }

    fn is(&self, fusion: &Fusion<'_>, op: &Op, operands: &[&Array]) -> bool {
        let same = |((shape, dtype), x): (&(Vec<usize>, DType), &&Array)| *shape == x.shape && *dtype == x.dtype;
        self.operands.len() == operands.len()
            && self.operands.iter().zip(operands).all(same)
            && self.architecture == fusion.architecture
            && self.numerics == fusion.numerics
            && self.op == *op
    }
}

/// The cached calls of an engine. A full generation replaces the previous one; calls used since then have been moved to
/// the current one and survive.
#[derive(Default)]
pub(super) struct Calls(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    /// The registry for which the calls were prepared.
    shaders: Option<Arc<Registry>>,
    young: HashMap<u64, Arc<Call>>,
    old: HashMap<u64, Arc<Call>>,
}

impl Generations {
    fn keep(&mut self, key: u64, call: Arc<Call>) {
        if self.young.len() >= MOST {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, call);
    }
}

impl Calls {
    /// Returns the cached call for the same registry of shaders, or prepares it with `make`.
    ///
    /// # Errors
    /// As `make`.
    pub(super) fn get(
        &self,
        fusion: &Fusion<'_>,
        op: &Hashed,
        operands: &[&Array],
        make: impl FnOnce() -> crate::Result<Call>,
    ) -> crate::Result<Arc<Call>> {
        let shaders = fusion.shaders;
        let key = key(fusion, op, operands);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let known = &mut *lock();
            if !known.shaders.as_ref().is_some_and(|then| Arc::ptr_eq(then, shaders)) {
                *known = Generations { shaders: Some(shaders.clone()), ..Generations::default() };
            }
            let fits = |call: &&Arc<Call>| call.is(fusion, &op.op, operands);
            if let Some(call) = known.young.get(&key).filter(fits) {
                return Ok(call.clone());
            }
            if let Some(call) = known.old.get(&key).filter(fits).cloned() {
                known.keep(key, call.clone());
                return Ok(call);
            }
        }
        let call = Arc::new(make()?);
        let known = &mut *lock();
        if known.shaders.as_ref().is_some_and(|then| Arc::ptr_eq(then, shaders)) {
            known.keep(key, call.clone());
        }
        Ok(call)
    }
}

fn key(fusion: &Fusion<'_>, op: &Hashed, operands: &[&Array]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (fusion.architecture, fusion.numerics, op.hash).hash(&mut hasher);
    for x in operands {
        (&x.shape, x.dtype).hash(&mut hasher);
    }
    hasher.finish()
}

/// Hashes the text that is written to it.
struct Text(DefaultHasher);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

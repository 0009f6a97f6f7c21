//! Kernels as objects: selected by name, configured by options, described without a device, called on arrays. They are
//! the ops of [`crate::ops`] and the shaders that every model runs.
//!
//! ```
//! use grilly::array::Engine;
//! use grilly::dtype::DType;
//! use grilly::kernels::Kernel;
//!
//! let swiglu = Kernel::get("swiglu", serde_json::json!({"hidden_dim": 4})).unwrap();
//! assert_eq!(swiglu.definition().unwrap(), ["linear", "linear", "binary"]);
//! assert!(swiglu.describe(1).unwrap().shaders[0].source.contains("void main()"));
//!
//! let engine = Engine::of("cpu").unwrap();
//! let upload = |shape: &[usize], values: &[f32]| {
//!     engine.upload(DType::F32, shape, bytemuck::cast_slice(values)).unwrap()
//! };
//! let (x, gate, up) = (upload(&[1, 4], &[1.0; 4]), upload(&[1, 4], &[9.0; 4]), upload(&[1, 4], &[0.5; 4]));
//! let y = swiglu.call(&[&x, &gate, &up]).unwrap().read().unwrap();
//! assert_eq!(f32::from_le_bytes(y.try_into().unwrap()), 72.0);
//! ```

pub(crate) mod describe;
mod rows;

pub use crate::backend::vulkan::flash;
pub use describe::{Description, Shader};
pub use rows::{Options, ROWS, Row};

use flash::FlashAttentionConfig;

use crate::array::{Array, op_graph};
use crate::dtype::DType;
use crate::ops::{Op, Shape};
use crate::{Error, Result};

/// A kernel with its options.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    row: &'static Row,
    options: Options,
}

/// An operand of a kernel: element type and axes.
pub type Operand = (DType, Vec<usize>);

impl Kernel {
    /// The kernel called `name`; omitted options have the defaults of [`Options`].
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, an option that the kernel does not have, and a value of the wrong type or
    /// that does not fit the others.
    pub fn get(name: &str, options: serde_json::Value) -> Result<Kernel> {
        let row = ROWS.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            Error::InvalidArgument(format!("there is no kernel called {name:?}, only {}", known.join(", ")))
        })?;
        let given = options.as_object().into_iter().flat_map(|options| options.keys());
        if let Some(other) = given.into_iter().find(|key| !row.options.contains(&key.as_str())) {
            let known = row.options.join(", ");
            return Err(Error::InvalidArgument(format!("{name} has no option {other}; its options are {known}")));
        }
        let fault = |cause: serde_json::Error| Error::InvalidArgument(format!("{name}: {cause}"));
        let given: Options = serde_json::from_value(options.clone()).map_err(fault)?;
        if given.config.is_some()
            && let Some(other) = ["head_dim", "use_half", "use_bfloat16"].iter().find(|key| options.get(key).is_some())
        {
            return Err(Error::InvalidArgument(format!("{name}: {other} is given, and config has one")));
        }
        // A configuration has a head and an element type.
        let options = match given.config {
            Some(config) => Options { head_dim: config.head_dim as usize, use_half: config.half_precision, ..given },
            None => given,
        };
        let kernel = Kernel { row, options };
        kernel.options.check(name)?;
        op_graph(&kernel.op(), &kernel.operands(1))?;
        Ok(kernel)
    }

    /// Its row in the table.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The op that it runs.
    pub fn op(&self) -> Op {
        (self.row.op)(&self.options)
    }

    /// Its operands for a number of rows: tokens, positions of a text, or rows of scores.
    pub fn operands(&self, rows: usize) -> Vec<Operand> {
        let op = self.op();
        let axes = (self.row.operands)(&self.options, rows);
        let typed = axes.into_iter().enumerate().map(|(place, axes)| {
            let stored = self.options.stored();
            (op.operand(place).dtype(stored), axes)
        });
        typed.collect()
    }

    /// Names of the ops in its definition; its own op if it is not fused.
    ///
    /// # Errors
    /// None for a kernel created by [`Kernel::get`].
    pub fn definition(&self) -> Result<Vec<&'static str>> {
        let op = self.op();
        let shapes: Vec<Shape> = self.operands(1).iter().map(|(_, axes)| Shape::fixed(axes)).collect();
        let steps = op.definition(&shapes.iter().collect::<Vec<_>>())?;
        let names: Vec<&str> = steps.iter().map(|step| step.op.name()).collect();
        Ok(if names.is_empty() { vec![op.name()] } else { names })
    }

    /// The same with other blocks.
    pub(crate) fn with_config(&self, config: FlashAttentionConfig) -> Kernel {
        Kernel { options: Options { config: Some(config), ..self.options.clone() }, row: self.row }
    }

    /// Its shaders on a device without optional features, with a configuration also without limits; and its work for a number
    /// of rows.
    ///
    /// # Errors
    /// `Unsupported` for sizes that no device supports.
    pub fn describe(&self, rows: usize) -> Result<Description> {
        describe::describe(&self.op(), &self.operands(rows), self.options.config)
    }

    /// Runs it on arrays of one device and returns the result.
    ///
    /// # Errors
    /// `InvalidArgument` for arrays that contradict the options, `Unsupported` for `use_bfloat16`, which arrays do not have,
    /// else as [`crate::array::Engine::call`].
    pub fn call(&self, operands: &[&Array]) -> Result<Array> {
        self.check(operands)?.engine().call(&self.op(), operands)
    }

    /// As [`Kernel::call`], but unfused, by its definition.
    ///
    /// # Errors
    /// As [`Kernel::call`], and for a kernel that is not fused.
    pub fn call_apart(&self, operands: &[&Array]) -> Result<Array> {
        self.check(operands)?.engine().call_apart(&self.op(), operands)
    }

    /// Returns the first operand, after checking its trailing axes and all axes of the weights against the options.
    fn check<'a>(&self, operands: &[&'a Array]) -> Result<&'a Array> {
        if self.options.use_bfloat16 {
            let reason = "arrays cannot be bfloat16: take use_half, or compile the kernel for another engine";
            return Err(Error::unsupported(self.row.name, reason));
        }
        let first = *operands.first().ok_or_else(|| self.fault("no operands".into()))?;
        let rows = first.shape().iter().rev().nth(self.row.row_axis).copied().unwrap_or(1);
        if rows > self.options.max_seq_len && self.row.options.contains(&"max_seq_len") {
            return Err(
                self.fault(format!("{rows} places, expected at most max_seq_len, {}", self.options.max_seq_len))
            );
        }
        let (_, expected) = &self.operands(rows)[0];
        let (_, expected) = expected.split_at(expected.len() - self.row.row_axis);
        if !first.shape().ends_with(expected) {
            let (name, shape) = (self.op().operand(0).name, first.shape());
            let found = format!("{name} has shape {shape:?}, expected last axes {expected:?}");
            return Err(self.fault(found));
        }
        Ok(first)
    }

    pub(crate) fn fault(&self, what: String) -> Error {
        Error::InvalidArgument(format!("{}: {what}", self.row.name))
    }
}

/// A doctest that compiles and runs the Rust code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guides/kernels.md")]
mod guide {}

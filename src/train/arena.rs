//! One array of parameters, and others like it of their gradients and moments: where each tensor lies.

use std::collections::HashMap;

use super::{Parameter, Tensor};
use crate::dtype::DType;
use crate::process::memory::filled;
use crate::{Error, Result};

/// Elements of which every tensor starts at a multiple: 256 bytes in 16 bits, the largest alignment that a device asks for.
pub(super) const ALIGNMENT: usize = 128;

/// The tensors of a model and their places. What lies between two of them is zero.
pub(super) struct Arena {
    /// Name and shape of each.
    pub(super) parameters: Vec<Parameter>,
    /// First element of each.
    pub(super) first: Vec<usize>,
    /// Elements of the array.
    pub(super) size: usize,
}

impl Arena {
    /// The bytes of each tensor in those of an array.
    pub(super) fn parts<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a Parameter, &'a [u8])> {
        let part = |(of, first): (&'a Parameter, &usize)| {
            let first = DType::F32.bytes(*first);
            (of, &bytes[first..first + DType::F32.bytes(of.elements())])
        };
        self.parameters.iter().zip(&self.first).map(part)
    }

    /// The arrays of the kinds of an optimiser's state, from a checkpoint's tensors.
    ///
    /// # Errors
    /// `InvalidArgument` naming a tensor that is missing, or that neither the model nor its optimiser has.
    pub(super) fn arrays(&self, kinds: &[&str], tensors: Vec<Tensor>) -> Result<Vec<Vec<u8>>> {
        let mut known: HashMap<String, Tensor> =
            tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        let mut arrays = Vec::with_capacity(kinds.len());
        for kind in kinds {
            let mut array = filled(DType::F32.bytes(self.size), 0, "the parameters of a model")?;
            for (parameter, first) in self.parameters.iter().zip(&self.first) {
                let name = format!("{kind}{}", parameter.name);
                let Some(tensor) = known.remove(&name).filter(|tensor| tensor.shape == parameter.shape) else {
                    let shape = &parameter.shape;
                    return Err(Error::InvalidArgument(format!("the checkpoint has no {name} of shape {shape:?}")));
                };
                array[DType::F32.bytes(*first)..][..tensor.bytes.len()].copy_from_slice(&tensor.bytes);
            }
            arrays.push(array);
        }
        match known.into_keys().min() {
            Some(name) => Err(Error::InvalidArgument(format!(
                "the checkpoint has {name}, which neither its model nor its optimizer has"
            ))),
            None => Ok(arrays),
        }
    }
}

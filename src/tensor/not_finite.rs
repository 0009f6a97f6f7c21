//! What is said of a tensor that holds NaN or infinity, or overflows when it is converted.

use std::ops::Range;
use std::path::Path;

use super::TensorView;
use crate::Error;
use crate::dtype::DType;

/// Where a tensor is stored, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// The file.
    pub file: &'a Path,
    /// Its name in the file.
    pub name: &'a str,
    /// Its axes; those of the part that is read, where that is a block of its rows.
    pub axes: &'a [usize],
    /// The first of its rows that is read.
    pub first_row: usize,
}

impl Origin<'_> {
    /// The indices of an element of the part that is read.
    fn indices(&self, mut element: usize) -> Vec<usize> {
        let mut indices: Vec<usize> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let index = element % axis;
                element /= axis;
                index
            })
            .collect();
        indices.reverse();
        indices.first_mut().into_iter().for_each(|row| *row += self.first_row);
        indices
    }
}

impl<'a> TensorView<'a> {
    /// The view, with the place where it is stored.
    pub fn stored_in(self, origin: Origin<'a>) -> Self {
        TensorView { origin: Some(origin), ..self }
    }

    /// The error of elements of which one, as `dtype`, is NaN or infinite.
    #[cold]
    pub(super) fn not_finite(&self, elements: Range<usize>, dtype: DType) -> Error {
        let width = self.columns.len();
        let place = |element: usize| self.rows.at(element / width) + self.columns.at(element % width);
        // Each is looked at alone: as stored, with what is added to it, and as it is read.
        for element in elements {
            let (mut stored, mut read, mut bytes) = ([0.0], [0.0], [0; 4]);
            let alone = TensorView { added: None, ..self.clone() };
            if alone.read_stored(element, &mut stored).is_err() {
                continue;
            }
            let finite = self.read_block(element, &mut read).unwrap_or(false);
            if finite && dtype.encode(&read, &mut bytes[..dtype.bytes(1)]) {
                continue;
            }
            let (name, file, place) = match &self.origin {
                Some(origin) => (
                    origin.name,
                    format!("{}: ", origin.file.display()),
                    format!("{:?}", origin.indices(place(element))),
                ),
                None => ("a constant", String::new(), place(element).to_string()),
            };
            let [stored] = stored;
            let fault = match stored {
                x if x.is_nan() => format!("is NaN at {place}: {FAULTY}"),
                x if x.is_infinite() => format!("is infinite ({x}) at {place}: {FAULTY}"),
                x => {
                    let narrow = [self.rounded, dtype].into_iter().find(|dtype| dtype.is_narrow());
                    let held = narrow.unwrap_or(DType::F32).name();
                    let with = if self.added.is_some() { ", with what is added to it," } else { "" };
                    format!("is {x} at {place}, which{with} is beyond the range of {held}; {WIDER}")
                }
            };
            return Error::NotFinite(format!("{file}{name} {fault}"));
        }
        Error::NotFinite("a weight is not finite".into())
    }
}

/// What is wrong with such numbers in a file.
const FAULTY: &str = "the weights are faulty; fetch the file anew, or take an earlier checkpoint of the training";
/// What holds larger numbers.
const WIDER: &str = "load the model with dtype=\"float32\" or \"bfloat16\"";

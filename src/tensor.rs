//! Tensors of a checkpoint where they lie, and who has them.

use crate::Result;
use crate::dtype::DType;

/// A tensor of a checkpoint as it lies in the mapped file.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a> {
    /// Element type on disk.
    pub stored: DType,
    /// What its numbers are rounded to before anything is computed with them; float32 for not at all.
    pub rounded: DType,
    /// Axes, slowest first.
    pub shape: &'a [usize],
    /// The elements, little endian; not necessarily aligned.
    pub bytes: &'a [u8],
}

impl TensorView<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Writes elements from `first` on as `dtype`, as many as `out` has room for.
    pub fn read(&self, first: usize, dtype: DType, out: &mut [u8]) {
        let as_they_are =
            self.stored.is_narrow() && self.stored == dtype && [DType::F32, dtype].contains(&self.rounded);
        if as_they_are {
            return out.copy_from_slice(&self.bytes[self.stored.bytes(first)..][..out.len()]);
        }
        if let (DType::F32, Ok(values)) = (dtype, bytemuck::try_cast_slice_mut(out)) {
            return self.read_f32(first, values);
        }
        let mut block = [0.0; 1024];
        for (number, out) in out.chunks_mut(dtype.bytes(block.len())).enumerate() {
            let values = &mut block[..out.len() * 8 / dtype.bits()];
            self.read_f32(first + number * 1024, values);
            dtype.encode(values, out);
        }
    }

    /// Writes elements `first..first + out.len()` as f32.
    pub fn read_f32(&self, first: usize, out: &mut [f32]) {
        let bytes = &self.bytes[self.stored.bytes(first)..self.stored.bytes(first + out.len())];
        self.stored.decode_into(bytes, out);
        self.rounded.round(out);
    }
}

/// Where a plan's constants come from; kept alive by the program, so that a backend may read in place.
pub trait WeightSource: Send + Sync {
    /// The tensor called `name`, already checked for shape by the model.
    ///
    /// # Errors
    /// `Weights` when there is none of that name.
    fn tensor(&self, name: &str) -> Result<TensorView<'_>>;
}

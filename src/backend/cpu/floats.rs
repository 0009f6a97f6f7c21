//! Growable float memory, aligned to the widest vectors and to cache lines.

use std::ops::{Deref, DerefMut};

use crate::Result;
use crate::process::memory::make_room;

/// One cache line, one AVX-512 vector.
#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Line([f32; 16]);

/// Floats aligned to a cache line.
#[derive(Default)]
pub struct Floats {
    lines: Vec<Line>,
    length: usize,
}

impl Floats {
    /// No floats.
    pub const EMPTY: Floats = Floats { lines: Vec::new(), length: 0 };

    /// `length` zeros.
    ///
    /// # Errors
    /// `OutOfMemory` naming the purpose.
    pub fn zeros(length: usize, purpose: &str) -> Result<Self> {
        let mut floats = Floats::default();
        floats.resize(length, purpose)?;
        Ok(floats)
    }

    /// Changes the length. Elements within both the old and the new length are kept; zeros or old values follow.
    ///
    /// # Errors
    /// `OutOfMemory` naming the purpose.
    pub fn resize(&mut self, length: usize, purpose: &str) -> Result<()> {
        let lines = length.div_ceil(16);
        if lines > self.lines.len() {
            let more = lines - self.lines.len();
            make_room(&mut self.lines, more, purpose)?;
            self.lines.resize(lines, Line([0.0; 16]));
        }
        self.length = length;
        Ok(())
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

//! The memory that the steps of a plan write.

use super::floats::Floats;
use crate::graph::Storage;

/// A plan's buffers, and its states, which persist between runs.
#[derive(Default)]
pub struct Written {
    /// In the order of `Plan::buffers`.
    pub buffers: Vec<Floats>,
    /// In the order of `Graph::states`.
    pub states: Vec<Floats>,
    /// What a step writes for itself.
    pub scratch: Floats,
}

impl Written {
    /// Nothing written: for a step that is not run yet.
    pub const NONE: &'static Written = &Written { buffers: Vec::new(), states: Vec::new(), scratch: Floats::EMPTY };

    /// The memory of a buffer or a state.
    pub fn memory(&mut self, storage: Storage) -> Option<&mut Floats> {
        match storage {
            Storage::Buffer(place) => self.buffers.get_mut(place),
            Storage::State(place) => self.states.get_mut(place),
            Storage::Input(_) | Storage::Weight => None,
        }
    }
}

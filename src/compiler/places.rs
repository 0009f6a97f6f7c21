//! Where a module declares its buffers, and the same module with all of them as storage buffers of set 0, which are all
//! that dispatches bind: uniform blocks become read-only storage buffers, other sets further bindings.

use std::collections::{BTreeSet, HashMap, HashSet};

use rspirv::spirv::{Capability, Decoration, Op, StorageClass};

/// Set and binding of a buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// `set` of the layout qualifier, 0 where it is left out.
    pub set: u32,
    /// `binding` of the layout qualifier.
    pub binding: u32,
}

/// The first word of an instruction.
fn first(op: Op, words: usize) -> u32 {
    (words as u32) << 16 | op as u32
}

/// Words before the first instruction.
const HEADER: usize = 5;
/// The version that has the class of storage buffers without an extension.
const WITH_STORAGE_BUFFERS: u32 = 0x0001_0300;
const EXTENSION: &[u8] = b"SPV_KHR_storage_buffer_storage_class\0\0\0\0";

/// What the instructions of a module say of its buffers.
#[derive(Default)]
struct Found {
    /// Ids of variables with their decorations.
    sets: HashMap<u32, u32>,
    bindings: HashMap<u32, u32>,
    /// Structs of the storage buffers of SPIR-V before 1.3.
    older: HashSet<u32>,
    /// What pointers point to, and of what arrays are made.
    inner: HashMap<u32, u32>,
    /// Variables of the class of uniforms with the types of their pointers.
    uniforms: Vec<(u32, u32)>,
}

impl Found {
    fn of(words: &[u32]) -> Self {
        let mut found = Found::default();
        for instruction in instructions(words) {
            match *instruction {
                [op, id, kind, value] if op == first(Op::Decorate, 4) && kind == Decoration::DescriptorSet as u32 => {
                    found.sets.insert(id, value);
                }
                [op, id, kind, value] if op == first(Op::Decorate, 4) && kind == Decoration::Binding as u32 => {
                    found.bindings.insert(id, value);
                }
                [op, id, kind] if op == first(Op::Decorate, 3) && kind == Decoration::BufferBlock as u32 => {
                    found.older.insert(id);
                }
                [op, id, _, inner] if op == first(Op::TypePointer, 4) || op == first(Op::TypeArray, 4) => {
                    // The second word of an array is what it is made of.
                    let inner = if op == first(Op::TypeArray, 4) { instruction[2] } else { inner };
                    found.inner.insert(id, inner);
                }
                [op, kind, id, class, ..] if op & 0xffff == Op::Variable as u32 && class == UNIFORM => {
                    found.uniforms.push((id, kind));
                }
                _ => {}
            }
        }
        found
    }

    fn place(&self, id: u32, binding: u32) -> Place {
        Place { set: self.sets.get(&id).copied().unwrap_or(0), binding }
    }

    /// The places of all buffers in order.
    fn places(&self) -> Vec<Place> {
        let places: BTreeSet<Place> = self.bindings.iter().map(|(id, binding)| self.place(*id, *binding)).collect();
        places.into_iter().collect()
    }

    /// The variables of uniform blocks.
    fn blocks(&self) -> impl Iterator<Item = u32> {
        self.uniforms.iter().filter_map(|(id, pointer)| {
            let mut kind = *self.inner.get(pointer)?;
            while let Some(inner) = self.inner.get(&kind) {
                kind = *inner;
            }
            (!self.older.contains(&kind)).then_some(*id)
        })
    }
}

const UNIFORM: u32 = StorageClass::Uniform as u32;

/// The instructions of a module; those of a valid one fill it.
fn instructions(words: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = words.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (instruction, after) = rest.split_at_checked((rest.first()? >> 16).max(1) as usize)?;
        rest = after;
        Some(instruction)
    })
}

/// Where buffers of a valid module are declared, in the order of their bindings as dispatches see them.
pub(super) fn places(words: &[u32]) -> Vec<Place> {
    Found::of(words).places()
}

/// A valid module with its buffers as storage buffers of set 0; `None` for one that has them so. With sets other than 0
/// each buffer's binding is its number among `places`.
pub(super) fn as_storage(words: &[u32], places: &[Place]) -> Option<Vec<u32>> {
    let found = Found::of(words);
    let blocks: Vec<u32> = found.blocks().collect();
    let sets = places.iter().any(|place| place.set != 0);
    if blocks.is_empty() && !sets {
        return None;
    }
    let mut made = words[..HEADER].to_vec();
    let (mut before, mut decorated) = (true, false);
    for instruction in instructions(words) {
        let mut instruction = instruction.to_vec();
        let op = instruction[0] & 0xffff;
        if before && op != Op::Capability as u32 {
            before = false;
            if words[1] < WITH_STORAGE_BUFFERS && !blocks.is_empty() {
                let name = EXTENSION.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                made.extend([first(Op::Extension, 1 + EXTENSION.len() / 4)].into_iter().chain(name));
            }
        }
        if !decorated && [Op::Decorate as u32, Op::MemberDecorate as u32].contains(&op) {
            decorated = true;
            for id in &blocks {
                made.extend([first(Op::Decorate, 3), *id, Decoration::NonWritable as u32]);
            }
        }
        if sets {
            renumber(&mut instruction, &found, places);
        }
        if !blocks.is_empty() {
            store(&mut instruction);
        }
        made.extend(instruction);
    }
    Some(made)
}

/// Sets the places of a variable to set 0 and the number of its place.
fn renumber(instruction: &mut [u32], found: &Found, places: &[Place]) {
    let [op, id, kind, value] = instruction else { return };
    if *op != first(Op::Decorate, 4) {
        return;
    }
    if *kind == Decoration::DescriptorSet as u32 {
        *value = 0;
    } else if *kind == Decoration::Binding as u32 {
        let place = found.place(*id, *value);
        *value = places.iter().position(|other| *other == place).map_or(*value, |number| number as u32);
    }
}

/// Replaces the class of uniforms by that of storage buffers.
fn store(instruction: &mut [u32]) {
    let storage = StorageClass::StorageBuffer as u32;
    let replaced = |word: &mut u32, from: u32, to: u32| {
        if *word == from {
            *word = to;
        }
    };
    match instruction {
        [op, _, class, ..]
            if [Op::TypePointer, Op::TypeForwardPointer].map(|op| op as u32).contains(&(*op & 0xffff)) =>
        {
            replaced(class, UNIFORM, storage);
        }
        [op, _, _, class, ..] if *op & 0xffff == Op::Variable as u32 => replaced(class, UNIFORM, storage),
        [op, _, kind] if *op == first(Op::Decorate, 3) => {
            replaced(kind, Decoration::BufferBlock as u32, Decoration::Block as u32);
        }
        [op, capability] if *op == first(Op::Capability, 2) => {
            use Capability as C;
            let [narrow, both] = [C::StorageBuffer16BitAccess, C::UniformAndStorageBuffer16BitAccess];
            replaced(capability, both as u32, narrow as u32);
            let [narrow, both] = [C::StorageBuffer8BitAccess, C::UniformAndStorageBuffer8BitAccess];
            replaced(capability, both as u32, narrow as u32);
        }
        _ => {}
    }
}

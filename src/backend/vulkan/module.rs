//! SPIR-V modules of the kernels, which the library holds compressed as one: they are alike.

use std::io::Read;
use std::ops::Deref;
use std::sync::OnceLock;

use lzma_rust2::LzmaReader;

use super::relative_ids::to_ids;

/// What `build.rs` writes: all modules, one after the other, with ids as differences, as LZMA.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/modules.lzma"));
static UNPACKED: OnceLock<Vec<u32>> = OnceLock::new();

/// A SPIR-V module, which dereferences to its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// So many words from a place on in the library's own modules, which are unpacked by the first use of one.
    Packed(usize, usize),
    /// These words.
    Words(&'static [u32]),
}

impl Deref for Module {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match *self {
            Module::Packed(first, count) => &UNPACKED.get_or_init(unpack)[first..first + count],
            Module::Words(words) => words,
        }
    }
}

fn unpack() -> Vec<u32> {
    let mut bytes = Vec::new();
    let reader = LzmaReader::new_mem_limit(PACKED, u32::MAX, None);
    reader.and_then(|mut reader| reader.read_to_end(&mut bytes)).expect("build.rs wrote the modules");
    let mut words: Vec<u32> = bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    to_ids(&mut words);
    words
}

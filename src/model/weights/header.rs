//! Strict reading of the header of a safetensors file: every statement is checked before use.
//!
//! Layout: 8 bytes little-endian length of the header, the header (JSON), then the tensors' bytes end to end.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::error::brief;

/// Bytes of the length field before the header.
const LENGTH: usize = 8;
/// The format's own limit on the header's length.
const LONGEST_HEADER: u64 = 100_000_000;

/// Bytes of memory that a byte of a header may take, as names and shapes.
const PARSED: u128 = 16;

/// Bytes of memory that reading the header of a safetensors file takes at most; 0 for other files, whose readers have limits.
pub(super) fn parsed(path: &Path, file: &[u8]) -> u128 {
    let safe = path.extension().is_some_and(|end| end == "safetensors");
    let length = file.first_chunk::<LENGTH>().filter(|_| safe);
    length.map_or(0, |length| PARSED * u128::from(u64::from_le_bytes(*length).min(file.len() as u64)))
}

/// A tensor of a file; its size has been checked against its shape and type.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stored {
    /// Name in the file.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Axes, slowest first.
    pub shape: Vec<usize>,
    /// Byte range of the elements in the file.
    pub bytes: Range<usize>,
    /// Why the elements cannot be read, which is a fault only of a tensor that is needed; it has no bytes then.
    pub unread: Option<Unread>,
}

/// What prevents a tensor's elements from being read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unread {
    /// What the tensor is or has.
    pub reason: String,
    /// What to do with the file.
    pub remedy: &'static str,
}

impl Stored {
    /// Its rows in so many equal blocks.
    pub(super) fn blocks(&self, count: usize) -> Result<Vec<Stored>, String> {
        let rows = self.shape.first().copied().unwrap_or_default();
        if count > 1 && !rows.is_multiple_of(count) {
            return Err(format!("{} has shape {:?}, expected {count} equal blocks of rows", self.name, self.shape));
        }
        let bytes = self.bytes.len() / count.max(1);
        let block = |number| {
            let start = self.bytes.start + number * bytes;
            let mut block = Stored { bytes: start..start + bytes, ..self.clone() };
            block.shape.iter_mut().take(1).for_each(|rows| *rows /= count);
            block
        };
        Ok((0..count).map(block).collect())
    }
}

/// Reads all tensors of a file, in the order of their names, as the reference's reader gives them.
pub(super) fn read(file: &[u8]) -> Result<Vec<Stored>, String> {
    let Some((length, rest)) = file.split_first_chunk::<LENGTH>() else {
        return Err(format!("truncated: {} bytes, too short for a safetensors file", file.len()));
    };
    if file.starts_with(b"version https://git-lfs") {
        return Err("a Git LFS pointer, not the weights; fetch them with `git lfs pull`".into());
    }
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER {
        return Err(format!(
            "not a safetensors file: a header of {length} bytes, at most {LONGEST_HEADER} are allowed"
        ));
    }
    if length > rest.len() as u64 {
        return Err(format!("truncated: the header has {length} bytes, the file {} after its length", rest.len()));
    }
    let (header, data) = rest.split_at(length as usize);
    let header: Header = serde_json::from_slice(header).map_err(|e| format!("corrupt header: {}", brief(e)))?;
    let start = LENGTH + length as usize;
    let mut tensors = Vec::with_capacity(header.0.len());
    for (name, info) in header.0 {
        check_extent(&name, &info, data.len())?;
        let (begin, end) = info.data_offsets;
        let bytes = start + begin..start + end;
        tensors.push(Stored { name, dtype: info.dtype, shape: info.shape, bytes, unread: None });
    }
    tensors.sort_by_key(|tensor| (tensor.bytes.start, tensor.bytes.end));
    check_cover(&tensors, start, file.len())?;
    tensors.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tensors)
}

/// Checks one tensor: its offsets are inside the data, and their difference matches shape and type.
fn check_extent(name: &str, info: &TensorInfo, data: usize) -> Result<(), String> {
    let (begin, end) = info.data_offsets;
    if begin > end {
        return Err(format!("tensor {name} ends at {end} before it begins at {begin}"));
    }
    if end > data {
        return Err(format!(
            "tensor {name} ends at byte {end} of the data, which has only {data}: truncated or corrupt"
        ));
    }
    let elements = info.shape.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
    match bits {
        Some(bits) if bits % 8 == 0 && bits / 8 == end - begin => Ok(()),
        Some(bits) => Err(format!(
            "tensor {name} has {} bytes, but its shape {:?} of {:?} takes {}",
            end - begin,
            info.shape,
            info.dtype,
            bits.div_ceil(8)
        )),
        None => Err(format!("tensor {name} has the impossible shape {:?}", info.shape)),
    }
}

/// Checks all tensors: each byte of the data belongs to exactly one.
fn check_cover(tensors: &[Stored], start: usize, end: usize) -> Result<(), String> {
    let mut reached = start;
    let mut before = None;
    for tensor in tensors {
        let bytes = &tensor.bytes;
        if bytes.start < reached {
            return Err(format!("tensors {} and {} overlap", before.unwrap_or("?"), tensor.name));
        }
        if bytes.start > reached {
            return Err(format!("bytes {reached} to {} of the file belong to no tensor", bytes.start));
        }
        (reached, before) = (bytes.end, Some(tensor.name.as_str()));
    }
    match end - reached {
        0 => Ok(()),
        more => Err(format!("{more} bytes after the last tensor belong to none: corrupt")),
    }
}

/// The header's tensors in the file's order; a duplicate name is an error.
struct Header(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a map from tensor names to dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut tensors = Vec::new();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format!("the name {name:?} stands there twice")));
            }
            if name == "__metadata__" {
                map.next_value::<Option<HashMap<String, String>>>()?;
                continue;
            }
            tensors.push((name, map.next_value()?));
        }
        Ok(Header(tensors))
    }
}

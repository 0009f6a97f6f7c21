//! Reading of the state dicts that `torch.save` of PyTorch 1.6 and later writes: a zip archive of stored entries, of which
//! `data.pkl` describes the tensors and `data/0`, `data/1` and so on are their storages. Nothing in it is executed.

mod archive;
mod pickle;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ops::Range;

use safetensors::Dtype;

use self::archive::Entries;
use self::pickle::{Pickle, Tensor, Value};
use super::header::{Stored, Unread};
use crate::error::brief;

/// What to do with a file that is refused.
const REMEDY: &str = "if you trust the file, load it with transformers and save it with \
    `save_pretrained(FOLDER, safe_serialization=True)`";
/// transformers would save the numbers without their marks.
const UNMARKED: &str = "if you trust the file, save it anew with torch: \
    `torch.save({n: t.resolve_neg().resolve_conj() for n, t in torch.load(FILE).items()}, FILE)`";
/// Most bytes of data.pkl, which are about 20,000 tensors; each byte may take a hundred of memory.
const LONGEST_PICKLE: usize = 1 << 22;
/// Most axes of a tensor.
const MOST_AXES: usize = 8;

/// Reads the descriptions of all tensors, in the order of the dictionary. Tensors may share bytes.
pub(super) fn read(file: &[u8]) -> Result<Vec<Stored>, String> {
    if file.starts_with(b"version https://git-lfs") {
        return Err("a Git LFS pointer, not the weights; fetch them with `git lfs pull`".into());
    }
    if file.len() >= 4 && !file.starts_with(b"PK\x03\x04") {
        return Err(format!("not a zip archive as PyTorch 1.6 and later write it, perhaps an older file; {REMEDY}"));
    }
    let entries = archive::read(file)?;
    let mut folders = entries.keys().filter_map(|name| name.strip_suffix("/data.pkl"));
    let (Some(folder), None) = (folders.next(), folders.next()) else {
        return Err(format!("a zip archive without one data.pkl, not a file of `torch.save`; {REMEDY}"));
    };
    let order = entries.get(format!("{folder}/byteorder").as_str());
    if order.is_some_and(|range| file[range.clone()] != *b"little") {
        return Err(format!("its byte order is not little; {REMEDY}"));
    }
    let pickle = &file[entries[format!("{folder}/data.pkl").as_str()].clone()];
    if pickle.len() > LONGEST_PICKLE {
        return Err(format!("data.pkl has {} bytes, at most {LONGEST_PICKLE} are read; {REMEDY}", pickle.len()));
    }
    let (pickle, top) = Pickle::run(pickle)?;
    let mut names = HashSet::new();
    let mut tensors = Vec::new();
    for pair in pickle.items(top).chunks_exact(2) {
        let [Value::Text(name), value] = *pair else { return Err(format!("a tensor has no name; {REMEDY}")) };
        if !names.insert(name) {
            return Err(format!("the name {} stands there twice", brief(name)));
        }
        tensors.push(match value {
            Value::Tensor(tensor) => {
                stored(&pickle, folder, &entries, name, &tensor).map_err(|e| format!("tensor {}: {e}", brief(name)))?
            }
            _ => {
                let unread = Some(Unread { reason: "is not a tensor".into(), remedy: REMEDY });
                Stored { name: name.to_owned(), dtype: Dtype::U8, shape: Vec::new(), bytes: 0..0, unread }
            }
        });
    }
    // What holds no tensor at its top may hold a state dict further down.
    match tensors.first() {
        Some(Stored { name, unread: Some(Unread { reason, remedy }), .. })
            if tensors.iter().all(|tensor| tensor.unread.is_some()) =>
        {
            Err(format!("{} {reason}; {remedy}", brief(name)))
        }
        _ => Ok(tensors),
    }
}

/// The tensor, to be read if its elements are one range of its storage, in order and as they are.
fn stored(
    pickle: &Pickle<'_>,
    folder: &str,
    entries: &Entries<'_>,
    name: &str,
    tensor: &Tensor<'_>,
) -> Result<Stored, String> {
    let storage = tensor.storage;
    let numbers = |index: usize| -> Option<Vec<usize>> {
        let items = pickle.items(index);
        let number = |value: &Value<'_>| match value {
            Value::Int(number) => usize::try_from(*number).ok(),
            _ => None,
        };
        if items.len() > MOST_AXES { None } else { items.iter().map(number).collect() }
    };
    let (Some(shape), Some(strides)) = (numbers(tensor.shape), numbers(tensor.strides)) else {
        return Err(format!("its shape and strides are not up to {MOST_AXES} non-negative integers"));
    };
    if shape.len() != strides.len() {
        return Err(format!("its shape {shape:?} has other axes than its strides {strides:?}"));
    }
    let entry = format!("{folder}/data/{}", storage.key);
    let Some(whole) = entries.get(entry.as_str()) else {
        return Err(format!("the archive has no entry {}", brief(entry)));
    };
    let bytes = |elements: usize, dtype: Dtype| Some(elements.checked_mul(dtype.bitsize())? / 8);
    let held = usize::try_from(storage.elements).ok().and_then(|elements| bytes(elements, storage.dtype));
    if held != Some(whole.len()) {
        let (bytes, elements) = (whole.len(), storage.elements);
        return Err(format!("its storage has {bytes} bytes, not {elements} elements of {:?}", storage.dtype));
    }
    let marks = tensor.marks.map_or(&[][..], |marks| pickle.items(marks));
    let reason = match marks.first() {
        Some(Value::Text(mark)) => Some((format!("has torch's mark {:?}", brief(mark)), UNMARKED)),
        Some(_) => Some(("has marks without names".into(), UNMARKED)),
        None if !in_order(&shape, &strides) => {
            Some((format!("of shape {shape:?} has strides {strides:?}, expected adjacent elements"), REMEDY))
        }
        None => None,
    };
    let unread = reason.map(|(reason, remedy)| Unread { reason, remedy });
    let (name, dtype) = (name.to_owned(), tensor.dtype);
    if unread.is_some() {
        return Ok(Stored { name, dtype, shape, bytes: 0..0, unread });
    }
    let elements = shape.iter().try_fold(1usize, |product, axis| product.checked_mul(*axis));
    let range = || -> Option<Range<usize>> {
        let start = whole.start.checked_add(bytes(usize::try_from(tensor.first).ok()?, dtype)?)?;
        Some(start..start.checked_add(bytes(elements?, dtype)?)?)
    };
    match range().filter(|range| range.end <= whole.end) {
        Some(bytes) => Ok(Stored { name, dtype, shape, bytes, unread }),
        None => Err(format!(
            "of shape {shape:?} from element {} on exceeds its storage of {} elements of {:?}",
            tensor.first, storage.elements, storage.dtype
        )),
    }
}

/// Whether the strides are those of adjacent elements, last axis fastest. The stride of an axis of length 1 is not used.
fn in_order(shape: &[usize], strides: &[usize]) -> bool {
    let mut expected = 1usize;
    let axes = shape.iter().zip(strides).rev();
    shape.contains(&0)
        || axes.into_iter().all(|(axis, stride)| {
            let fits = *axis == 1 || *stride == expected;
            expected = expected.saturating_mul(*axis);
            fits
        })
}

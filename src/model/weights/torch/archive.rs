//! The entries of a zip archive, by the central directory at its end. Entries must be stored, not compressed, so that
//! each is a range of the file.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::brief;

/// Ranges of the entries, by name.
pub(super) type Entries<'a> = HashMap<&'a str, Range<usize>>;

const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";
const DIRECTORY_ENTRY: &[u8] = b"PK\x01\x02";
const LOCAL_ENTRY: &[u8] = b"PK\x03\x04";
/// Bytes of the end record, and of the longest comment after it.
const END_BYTES: usize = 22;
const LONGEST_COMMENT: usize = 0xffff;
/// Fields with these values are in the 64-bit records.
const FULL_16: u64 = 0xffff;
const FULL_32: u64 = 0xffff_ffff;

/// Reads the directory; every range of the result is inside the file.
pub(super) fn read(file: &[u8]) -> Result<Entries<'_>, String> {
    let (mut rest, count) = directory(file).ok_or("truncated or corrupt: no directory of a zip archive at its end")?;
    let mut entries = Entries::new();
    for number in 0..count {
        let (entry, after) =
            Entry::read(rest).ok_or_else(|| format!("corrupt: entry {number} of the zip directory"))?;
        let name = std::str::from_utf8(entry.name).map_err(|_| format!("corrupt: name of zip entry {number}"))?;
        if entry.encrypted || entry.method != 0 {
            let how = if entry.encrypted { "encrypted".into() } else { format!("compressed, method {}", entry.method) };
            return Err(format!("zip entry {} is {how}; PyTorch stores entries as they are", brief(name)));
        }
        let range = entry.range(file).ok_or_else(|| format!("truncated or corrupt: zip entry {}", brief(name)))?;
        if entries.insert(name, range).is_some() {
            return Err(format!("corrupt: two zip entries are called {}", brief(name)));
        }
        rest = after;
    }
    Ok(entries)
}

/// The bytes of the directory, and how many entries it has.
fn directory(file: &[u8]) -> Option<(&[u8], u64)> {
    let earliest = file.len().saturating_sub(END_BYTES + LONGEST_COMMENT);
    let fits = |start: &usize| {
        let end = &file[*start..];
        end.starts_with(END) && number(end, 20, 2) == Some((end.len() - END_BYTES) as u64)
    };
    let start = (earliest..(file.len() + 1).saturating_sub(END_BYTES)).rev().find(fits)?;
    let end = &file[start..];
    let (mut count, mut bytes, mut offset) = (number(end, 10, 2)?, number(end, 12, 4)?, number(end, 16, 4)?);
    if count == FULL_16 || bytes == FULL_32 || offset == FULL_32 {
        let locator = file.get(start.checked_sub(20)?..start).filter(|bytes| bytes.starts_with(LOCATOR_64))?;
        let end = file.get(usize::try_from(number(locator, 8, 8)?).ok()?..)?;
        (count, bytes, offset) = match end.starts_with(END_64) {
            true => (number(end, 32, 8)?, number(end, 40, 8)?, number(end, 48, 8)?),
            false => return None,
        };
    }
    Some((part(file, offset, bytes).map(|range| &file[range])?, count))
}

/// One row of the directory.
struct Entry<'a> {
    name: &'a [u8],
    encrypted: bool,
    method: u64,
    bytes: u64,
    /// Offset of the copy of this row that is before the entry's bytes.
    local: u64,
}

impl<'a> Entry<'a> {
    /// The first row, and the rows after it.
    fn read(rows: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let name_end = 46 + number(rows, 28, 2)? as usize;
        let extra_end = name_end + number(rows, 30, 2)? as usize;
        let end = extra_end + number(rows, 32, 2)? as usize;
        if !rows.starts_with(DIRECTORY_ENTRY) || rows.len() < end {
            return None;
        }
        let mut wide = Wide::find(&rows[name_end..extra_end]);
        // In this order, each only where the field of 32 bits is full.
        let bytes = wide.or(number(rows, 24, 4)?)?;
        wide.or(number(rows, 20, 4)?)?;
        let local = wide.or(number(rows, 42, 4)?)?;
        let (encrypted, method) = (number(rows, 8, 2)? & 1 == 1, number(rows, 10, 2)?);
        Some((Entry { name: &rows[46..name_end], encrypted, method, bytes, local }, &rows[end..]))
    }

    /// Where its bytes are.
    fn range(&self, file: &[u8]) -> Option<Range<usize>> {
        let local = file.get(usize::try_from(self.local).ok()?..)?;
        let name_end = 30 + number(local, 26, 2)? as usize;
        if !local.starts_with(LOCAL_ENTRY) || local.get(30..name_end)? != self.name {
            return None;
        }
        let start = self.local.checked_add((name_end + number(local, 28, 2)? as usize) as u64)?;
        part(file, start, self.bytes)
    }
}

/// The numbers of 64 bits in the extra fields of a row.
struct Wide<'a>(&'a [u8]);

impl<'a> Wide<'a> {
    fn find(mut extra: &'a [u8]) -> Self {
        while let (Some(id), Some(bytes)) = (number(extra, 0, 2), number(extra, 2, 2)) {
            let Some(field) = extra.get(4..4 + bytes as usize) else { break };
            if id == 1 {
                return Wide(field);
            }
            extra = &extra[4 + bytes as usize..];
        }
        Wide(&[])
    }

    /// `narrow`, or the next number if `narrow` is full.
    fn or(&mut self, narrow: u64) -> Option<u64> {
        if narrow != FULL_32 {
            return Some(narrow);
        }
        let value = number(self.0, 0, 8)?;
        self.0 = &self.0[8..];
        Some(value)
    }
}

/// A little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// `start..start + bytes`, if it is inside the file.
fn part(file: &[u8], start: u64, bytes: u64) -> Option<Range<usize>> {
    let end = start.checked_add(bytes).filter(|end| *end <= file.len() as u64)?;
    Some(start as usize..end as usize)
}

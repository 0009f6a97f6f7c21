//! Cache files: written completely or not at all, and ignored when damaged.
//!
//! `magic [8] | FNV-1a of the data [8] | data`

use std::path::Path;

use crate::Result;
use crate::process::files::{self, Existing};

const MAGIC: &[u8; 8] = b"grilly-1";

/// Far above the size of anything that is cached.
const LARGEST_FILE: u64 = 64 << 20;

/// The data of a file; `None` when it is missing, unreadable or damaged.
pub(crate) fn read(file: &Path) -> Option<Vec<u8>> {
    // Checked before opening: opening a pipe would block until its other end opens.
    let about = std::fs::metadata(file).ok()?;
    if !about.is_file() || about.len() > LARGEST_FILE {
        return None;
    }
    let bytes = std::fs::read(file).ok()?;
    let (magic, rest) = bytes.split_at_checked(8)?;
    let (sum, data) = rest.split_at_checked(8)?;
    (magic == MAGIC && sum == checksum(data).to_le_bytes()).then(|| data.to_vec())
}

/// Replaces a file whole, so that a reader finds the old one or the new one, never a partial one.
pub(crate) fn write(file: &Path, data: &[u8]) -> Result<()> {
    let bytes = [MAGIC.as_slice(), &checksum(data).to_le_bytes(), data].concat();
    let (folder, name) = (file.parent().unwrap_or(Path::new("")), file.file_name().unwrap_or_default());
    files::write(folder, &[(name, bytes)], Existing::Replace)
}

/// FNV-1a of 64 bits.
pub(crate) fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// FNV-1a of 128 bits: collisions between sources are not expected in practice.
pub(crate) fn content_hash(data: &[u8]) -> u128 {
    let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul((1 << 88) + 0x13b);
    data.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("cache.bin");
        assert_eq!(read(&file), None);
        write(&file, b"pipelines").unwrap();
        assert_eq!(read(&file).as_deref(), Some(b"pipelines".as_slice()));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no unfinished file stays");
        let good = std::fs::read(&file).unwrap();
        for damaged in [&good[..good.len() - 1], &good[..12], b"", b"grilly-0"] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(read(&file), None);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error_not_a_panic() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(write(&file.path().join("below").join("cache.bin"), b"x").is_err());
    }
}

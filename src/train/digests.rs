//! What protects the files of a run but the tensors: SHA-256 (FIPS 180-4) of a record and of the metrics.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::folder::fault;
use crate::Result;

/// The SHA-256 (FIPS 180-4) of `bytes`, as 64 hexadecimal digits.
///
/// ```
/// assert!(grilly::train::sha256(b"abc").starts_with("ba7816bf8f01cfea"));
/// ```
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of a JSON object without the member `record_sha256`, written without spaces, the members of each object in
/// the order of their names.
pub(super) fn of_record(record: &Value) -> String {
    fn write(value: &Value, to: &mut String) {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by_key(|(name, _)| *name);
                to.push('{');
                for (name, value) in members {
                    to.push_str(&format!("{}:", Value::from(name.as_str())));
                    write(value, to);
                    to.push(',');
                }
                to.push('}');
            }
            Value::Array(values) => {
                to.push('[');
                for value in values {
                    write(value, to);
                    to.push(',');
                }
                to.push(']');
            }
            other => to.push_str(&other.to_string()),
        }
    }
    let (mut record, mut text) = (record.clone(), String::new());
    record.as_object_mut().map(|members| members.remove("record_sha256"));
    write(&record, &mut text);
    sha256(text.as_bytes())
}

/// The first bytes of the file of metrics, which a checkpoint has the SHA-256 of: the lines of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Covered {
    /// How many.
    pub bytes: u64,
    /// Of these.
    pub sha256: String,
}

impl Covered {
    /// Checks the content of the file at a path.
    pub(super) fn check(&self, path: &Path, content: &[u8]) -> Result<()> {
        let own = usize::try_from(self.bytes).ok().and_then(|bytes| content.get(..bytes));
        if own.is_some_and(|own| sha256(own) == self.sha256) {
            return Ok(());
        }
        let bytes = self.bytes;
        Err(fault(
            path,
            format!(
                "is damaged, or of another run: its first {bytes} bytes do not have the SHA-256 in the newest checkpoint; \
                 remove it to go on without the metrics so far"
            ),
        ))
    }
}

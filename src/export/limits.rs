//! What dispatches need beyond the limits that every WebGPU device has.

use serde_json::{Value, json};

/// Limits by WebGPU's names, with their defaults.
const STORAGE_BUFFERS: (&str, u64) = ("maxStorageBuffersPerShaderStage", 8);
const WORKGROUP_MEMORY: (&str, u64) = ("maxComputeWorkgroupStorageSize", 16 << 10);
const INVOCATIONS: (&str, u64) = ("maxComputeInvocationsPerWorkgroup", 256);
const BINDING: (&str, u64) = ("maxStorageBufferBindingSize", 128 << 20);
pub(super) const BUFFER: (&str, u64) = ("maxBufferSize", 256 << 20);

/// The limits that the rows of an interface exceed: `name`, `needed`, `default` and the `reason`.
pub(super) fn beyond_default(buffers: &[Value], dispatches: &[Value]) -> Vec<Value> {
    let mut found = Vec::new();
    let mut add = |(name, default): (&str, u64), needs: &mut dyn Iterator<Item = (u64, String)>| {
        let most = needs.filter(|(needed, _)| *needed > default).max();
        found.extend(
            most.map(|(needed, reason)| json!({"name": name, "needed": needed, "default": default, "reason": reason})),
        );
    };
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let list = |row: &Value, key: &str| row[key].as_array().cloned().unwrap_or_default();
    let shader = |row: &Value| text(row, "shader");
    add(
        STORAGE_BUFFERS,
        &mut dispatches
            .iter()
            .map(|row| (list(row, "bindings").len() as u64, format!("{} reads and writes so many", shader(row)))),
    );
    add(
        WORKGROUP_MEMORY,
        &mut dispatches.iter().map(|row| {
            let reason =
                format!("{} keeps blocks of so many bytes: smaller ones would add in another order", shader(row));
            (row["workgroup_memory"].as_u64().unwrap_or(0).next_multiple_of(16), reason)
        }),
    );
    add(
        INVOCATIONS,
        &mut dispatches.iter().map(|row| {
            let sizes = list(row, "workgroup_size");
            (sizes.iter().filter_map(Value::as_u64).product(), format!("{} has so many in a workgroup", shader(row)))
        }),
    );
    add(
        BINDING,
        &mut dispatches.iter().flat_map(|row| list(row, "bindings")).map(|binding| {
            (binding["bytes"].as_u64().unwrap_or(0), format!("{} has so many bytes", text(&binding, "name")))
        }),
    );
    add(
        BUFFER,
        &mut buffers
            .iter()
            .map(|row| (row["bytes"].as_u64().unwrap_or(0), format!("{} has so many bytes", text(row, "name")))),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exceeded_limit_is_named_with_its_reason() {
        let row = |memory: u64, size: u64, bindings: usize, bytes: u64| {
            json!({"shader": "s", "workgroup_memory": memory, "workgroup_size": [size, 1, 1],
                   "bindings": vec![json!({"name": "x", "bytes": bytes}); bindings]})
        };
        let of = |dispatch: Value, bytes: u64| beyond_default(&[json!({"name": "x", "bytes": bytes})], &[dispatch]);
        assert_eq!(of(row(16 << 10, 256, 8, 128 << 20), 256 << 20), Vec::<Value>::new());
        let all = of(row((16 << 10) + 16, 512, 9, 129 << 20), 257 << 20);
        let names: Vec<&str> = all.iter().filter_map(|limit| limit["name"].as_str()).collect();
        assert_eq!(names, [STORAGE_BUFFERS, WORKGROUP_MEMORY, INVOCATIONS, BINDING, BUFFER].map(|(name, _)| name));
        assert_eq!((&all[1]["needed"], &all[1]["default"]), (&json!(16400), &json!(16384)));
        assert!(all[1]["reason"].as_str().unwrap().starts_with("s keeps blocks"));
    }
}

//! Folders of other libraries, which are no models by themselves.

use std::path::Path;

use super::fields::unsupported;
use super::files::{holds_gguf, read_json};
use crate::{Error, Result};

/// Refuses an adapter, and a folder that holds GGUF files in place of a model.
///
/// # Errors
/// `Unsupported` with what the folder is and what to do.
pub fn refuse(folder: &Path) -> Result<()> {
    let adapter = folder.join("adapter_config.json");
    if adapter.exists() {
        let values = read_json(&adapter).unwrap_or_default();
        let base = values.get("base_model_name_or_path").and_then(|name| name.as_str()).unwrap_or("its base model");
        let remedy = format!(
            "merge it into {base} with peft, `AutoPeftModelForFeatureExtraction.from_pretrained(FOLDER).merge_and_unload()`, \
             save that with `save_pretrained`, the tokenizer's files beside it, and load it"
        );
        return Err(unsupported(&adapter, "a PEFT adapter, not a model", remedy));
    }
    let configured = ["config.json", "modules.json"].iter().any(|name| folder.join(name).exists());
    if !configured && holds_gguf(folder) {
        let remedy = "fetch the repository with config.json, tokenizer.json and model.safetensors from which the file was \
                      converted";
        return Err(Error::unsupported(format!("{}: GGUF files without a config.json", folder.display()), remedy));
    }
    Ok(())
}

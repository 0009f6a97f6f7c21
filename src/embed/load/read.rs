//! Step 1: what the files of a folder say.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::Result;
use crate::embed::LoadOptions;
use crate::model::arguments::Arguments;
use crate::model::config::{self, SentenceConfig};
use crate::model::heads::{First, Modules};
use crate::model::routes::Row;
use crate::model::{class, foreign};

/// The settings of the modules that texts of one route pass through.
pub(super) struct Files<'a> {
    pub folder: &'a Path,
    pub options: &'a LoadOptions,
    /// None without `modules.json`.
    pub rows: Vec<Row>,
    pub modules: Modules,
    /// The folder of the first module.
    pub transformer: PathBuf,
    /// config.json there, with the values that arguments replace; empty for a table of token vectors.
    pub config: Map<String, Value>,
    pub config_path: PathBuf,
    /// Of the folder and the caller.
    pub arguments: Arguments,
    pub sentence: SentenceConfig,
}

impl<'a> Files<'a> {
    /// Reads the settings of `rows`, or of a folder without `modules.json`.
    ///
    /// # Errors
    /// `ModelFormat` and `Unsupported` for their faults.
    pub fn read(folder: &'a Path, options: &'a LoadOptions, rows: Vec<Row>) -> Result<Self> {
        let transformer = folder.join(rows.first().map_or("", |row| &row.path));
        foreign::refuse(&transformer)?;
        let config_path = transformer.join("config.json");
        let stated = if rows.is_empty() { Arguments::default() } else { Arguments::of_folder(&transformer)? };
        let arguments = stated.and(&options.arguments);
        let found = arguments.configuration(&config_path);
        let absent = Map::new();
        let config = found.as_ref().unwrap_or(&absent);
        let mut modules = match rows.is_empty() {
            true => class::read_bare(folder, options.class, config)?,
            false => class::read_listed(folder, options.class, &rows, config)?,
        };
        if let (Some(chosen), First::Transformer) = (&options.pooling, modules.first) {
            modules.pool(chosen);
        }
        let sentence = config::read_sentence_config(folder, options.class, &modules, &arguments, config)?;
        let config = match modules.first {
            First::Transformer => found?,
            First::StaticEmbedding => absent,
        };
        Ok(Files { folder, options, rows, modules, transformer, config, config_path, arguments, sentence })
    }
}

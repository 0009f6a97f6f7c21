//! A model as files that a browser runs on its GPU.

use std::path::Path;

use serde_json::{Value, json};

use super::Model;
use crate::export::{CompiledPlan, Target, compile_plan};
use crate::graph::ValueId;
use crate::model::encoder::Input;
use crate::model::spec::PositionRows;
use crate::ops::Counts;
use crate::process::files::{self, Existing};
use crate::process::memory::filled;
use crate::{Error, Result, exit};

/// Elements that are read between two looks for a request to stop.
const PIECE: usize = 1 << 20;
/// Runs the files with WebGPU.
const RUNTIME: &str = include_str!("export/grilly.js");

/// What an exported model does to a text before the encoder, and to its vector after it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportOptions<'a> {
    /// The text before it.
    pub prompt: &'a str,
    /// How many columns of the vector are kept; `None` for all.
    pub truncate_dim: Option<usize>,
    /// What becomes of files of the same names.
    pub existing: Existing,
}

impl Model {
    /// Writes the encoder of texts without a task to a folder, which is made if it is missing, in float32 and within the limits
    /// of every WebGPU device; each file is whole or absent. Returns the files' names:
    ///
    /// - `plan.json`: buffers and dispatches as in [`Compiled::interface`](crate::export::Compiled), but with sizes that follow
    ///   from a batch's tokens (`T`) and texts (`B`): a buffer has `rows` and `row_bytes`; `grid` has
    ///   `{"rows", "each", "more", "per"}` for `ceil((each rows + more) / per)`, none for no rows, or `{"text_tiles": per}` for
    ///   `floor(T / per) + B`. `inputs` are the contents of the operands, `outputs` the results that are columns of the texts'
    ///   vectors, `texts` the tokens around a text, its most tokens, the prompt before it and the columns that are kept of its vector;
    /// - `weights.bin`: the constants, each at its `offset`;
    /// - `shaders/NAME.wgsl`;
    /// - `tokenizer.json`, of the tokenizers library;
    /// - `grilly.js`: a module that runs them.
    ///
    /// # Errors
    /// `InvalidArgument` for another target than WGSL and for a file that is there already or cannot be written; `Unsupported`
    /// naming what stops the model: a tensor over the limits, texts that must have one length, a template that depends on the
    /// text; `OutOfMemory`.
    pub fn export(&self, target: Target, folder: &Path, options: &ExportOptions<'_>) -> Result<Vec<String>> {
        let ExportOptions { prompt, truncate_dim, existing } = *options;
        self.check_process()?;
        if target != Target::Wgsl {
            let problem = "models are written in \"wgsl\" alone, kernels by `kernel.compile` in the others, too";
            return Err(Error::InvalidArgument(format!("target is {:?}: {problem}", target.name())));
        }
        let route = self.route(None)?;
        let stage = route.stage(None)?;
        let name = |error| match error {
            Error::Unsupported { what, reason } => {
                Error::unsupported(format!("{} cannot be exported: {what}", route.model_type), reason)
            }
            other => other,
        };
        if route.chat.is_some() {
            return Err(name(Error::unsupported("its chat template", "the page's tokenizer has texts as they are")));
        }
        if stage.inputs.contains(&Input::KeyRows) {
            let reason = "the page has no keys of other rows than a text's own";
            return Err(name(Error::unsupported("its head for the last token", reason)));
        }
        let CompiledPlan { compiled, plan, weights } = compile_plan(&stage.plan, target).map_err(name)?;
        let (tokenizer, mut texts) = route.tokenizer.exported().map_err(name)?;
        texts["longest"] = json!(route.longest(None));
        texts["prompt"] = json!(prompt);
        texts["truncate_dim"] = json!(truncate_dim);
        texts["unpooled"] = json!(route.unpooled_tokens(prompt)?);
        texts["vocabulary"] = json!(route.spec.words.rows);
        let outputs = stage.outputs_of_texts().map(|place| json!({"place": place, "columns": stage.columns(place)}));
        let mut described = compiled.interface;
        for row in described["dispatches"].as_array_mut().into_iter().flatten() {
            row["file"] = json!(file(row["shader"].as_str().unwrap_or_default()));
        }
        described["weights"] = json!("weights.bin");
        described["inputs"] = stage.inputs.iter().map(|input| content(*input)).collect();
        described["outputs"] = outputs.collect();
        described["texts"] = texts;
        let value = |id: &ValueId| plan.graph.value(*id);
        let sizes = weights.iter().map(|id| value(id).bytes(Counts::default()).next_multiple_of(4));
        let mut constants = filled(sizes.sum(), 0u8, "weights.bin")?;
        let mut rest = &mut constants[..];
        for value in weights.iter().map(value) {
            let mut own = rest.split_off_mut(..value.bytes(Counts::default()).next_multiple_of(4)).unwrap_or_default();
            for part in value.tensors(&*route.source.weights)? {
                let bytes = value.dtype.bytes(part.elements());
                let memory = own.split_off_mut(..bytes).unwrap_or_default();
                for (number, piece) in memory.chunks_mut(value.dtype.bytes(PIECE)).enumerate() {
                    exit::check()?;
                    part.read(number * PIECE, value.dtype, piece)?;
                }
            }
        }
        let described = format!("{described}\n");
        let mut files = vec![
            ("plan.json".to_owned(), described.as_bytes()),
            ("weights.bin".to_owned(), &constants),
            ("tokenizer.json".to_owned(), tokenizer.as_bytes()),
            ("grilly.js".to_owned(), RUNTIME.as_bytes()),
        ];
        files.extend(compiled.code.iter().map(|code| (file(&code.name), &code.bytes[..])));
        files::write(folder, &files, existing)?;
        Ok(files.into_iter().map(|(name, _)| name).collect())
    }
}

fn file(shader: &str) -> String {
    format!("shaders/{shader}.wgsl")
}

/// What an operand of the plan holds.
fn content(input: Input) -> Value {
    match input {
        Input::Words => json!("words"),
        Input::Neighbours(none) => json!({"neighbours": none}),
        Input::Positions(PositionRows::Counted) => json!({"positions": "counted"}),
        Input::Positions(PositionRows::AfterPadding { pad }) => json!({"positions": "after_padding", "pad": pad}),
        Input::Positions(PositionRows::ByLength { most }) => json!({"positions": "by_length", "most": most}),
        Input::Offsets => json!("offsets"),
        Input::FirstPooled => json!("first_pooled"),
        Input::Segments => json!("segments"),
        // Those of decoders and of training.
        Input::States | Input::StateOffsets | Input::KeyOffsets | Input::KeyRows | Input::Seen | Input::DropoutKey => {
            json!(null)
        }
    }
}

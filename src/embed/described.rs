//! The modules of a model as text and as JSON.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use super::{Model, Route};
use crate::model::class::task_row;
use crate::model::config::Expansion;
use crate::model::encoder::Types;
use crate::model::heads::{Columns, First, Head};
use crate::model::routes::Row;

impl Model {
    /// Names of the modules in order, each with one line of its settings, e.g. `Pooling: mean`; a Router is one, with the
    /// names of its routes' modules.
    pub fn modules(&self) -> Vec<(String, String)> {
        let rows = &self.first().rows;
        let mut own = self.first().own_modules().into_iter().map(|(kind, line, _)| (kind, line));
        let Some(listing) = &self.listing else { return own.collect() };
        let mut modules = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let described = own.next();
            match listing.router(row.place) {
                None => modules.extend(described),
                Some(routes) if number == 0 || rows[number - 1].place != row.place => {
                    modules.push(("Router".to_owned(), routes));
                }
                Some(_) => {}
            }
        }
        modules
    }

    /// The modules in order as JSON objects: the name as `kind`, and the settings under sentence-transformers' names; of a
    /// Router `routes`, each with its modules.
    pub fn module_settings(&self) -> Vec<Value> {
        let own = |route: &Route| route.own_modules().into_iter().map(|(.., settings)| settings);
        let Some(listing) = &self.listing else { return own(self.first()).collect() };
        let all: Vec<(&Row, Value)> = self.routes.iter().flat_map(|route| route.rows.iter().zip(own(route))).collect();
        let of =
            |row: &Row| all.iter().find(|(known, _)| *known == row).map_or(Value::Null, |(_, found)| found.clone());
        listing.settings(of)
    }

    /// A tensor of the model as it is stored: its type, as safetensors names it, its axes and its bytes.
    pub fn stored_tensor(&self, name: &str) -> Option<(String, Vec<usize>, Vec<u8>)> {
        let weights = &self.first().source.weights;
        let (dtype, bytes) = weights.stored(name)?;
        Some((dtype, weights.shape(name)?.to_vec(), bytes.to_vec()))
    }

    /// The plan for texts without a task as text, one line per step, which builds run its products and attention, which values
    /// are wider than asked for, and which products of a model in integers are none.
    pub fn plan_text(&self) -> String {
        let route = self.usual();
        let stage = route.stage(None).unwrap_or(&route.source.encoders[0]);
        let builds = self.runner().map(|runner| runner.builds(&stage.plan)).unwrap_or_default();
        let wider = match Types::of(&route.spec, route.source.weights.rounded).wider {
            "" => String::new(),
            wider => format!("held in float32: {wider}\n"),
        };
        format!("{}{builds}{wider}{}", stage.plan, stage.plan.other_products(route.integers))
    }
}

impl Route {
    /// The modules that texts pass through: the name of each, a line of its settings, and all of them as a JSON object.
    fn own_modules(&self) -> Vec<(String, String, Value)> {
        let (spec, hidden, limit) = (&self.spec, self.spec.hidden, self.max_seq_length());
        // The mean is part of a StaticEmbedding.
        let (first, heads) = match self.modules.first {
            First::Transformer => {
                let head = self.head.as_ref().map_or("", |_| ", with its head");
                let line = format!("{}, {} layers of {hidden}{head}", self.model_type, spec.layers.len());
                let lower = self.sentence.do_lower_case;
                let (_, task, output, _) = task_row(self.modules.task);
                let mut settings = json!({
                    "transformer_task": task, "module_output_name": output, "do_lower_case": lower,
                    "embedding_dimension": hidden, "max_seq_length": limit,
                });
                let [query, document] = self.sentence.task_lengths;
                let expansion = self.sentence.expansion.as_ref().map(Expansion::to_json);
                let own = [("query_length", json!(query)), ("document_length", json!(document))];
                for (key, value) in own.into_iter().chain([("query_expansion", json!(expansion))]) {
                    if !value.is_null() {
                        settings[key] = value;
                    }
                }
                (("Transformer", line, settings), &self.modules.heads[..])
            }
            First::StaticEmbedding => {
                let rows = spec.words.rows;
                let settings = json!({"num_embeddings": rows, "embedding_dim": hidden, "max_seq_length": limit});
                (("StaticEmbedding", format!("{rows} tokens of {hidden}"), settings), &self.modules.heads[1..])
            }
        };
        let mut columns = Columns { tokens: hidden, sentence: hidden };
        let others = heads.iter().map(|head| {
            let ((kind, line), mut settings) = (head.shown(), head.settings(&mut columns));
            if let Head::Pooling { .. } = head {
                settings["include_prompt"] = self.include_prompt.load(Relaxed).into();
            }
            (kind, line, settings)
        });
        let named = |(kind, line, mut settings): (&str, String, Value)| {
            settings["kind"] = kind.into();
            (kind.to_owned(), line, settings)
        };
        std::iter::once(first).chain(others).map(named).collect()
    }
}

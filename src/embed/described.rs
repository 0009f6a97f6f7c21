//! The modules of a model as text and as JSON.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Map, Value, json};

use super::{Model, Route};
use crate::model::heads::{Columns, First, Head};
use crate::model::routes::Row;
use crate::model::task_head::Task;

impl Model {
    /// Names of the modules in order, each with one line of its settings, e.g. `Pooling: mean`; a Router is one, with the
    /// names of its routes' modules.
    pub fn modules(&self) -> Vec<(String, String)> {
        let rows = &self.first().rows;
        let mut own = self.first().own_modules().into_iter();
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
        let Some(listing) = &self.listing else { return self.first().own_settings() };
        let all: Vec<(&Row, Value)> =
            self.routes.iter().flat_map(|route| route.rows.iter().zip(route.own_settings())).collect();
        let of =
            |row: &Row| all.iter().find(|(known, _)| *known == row).map_or(Value::Null, |(_, found)| found.clone());
        listing.settings(of)
    }

    /// The plan for texts without a task as text, one line per step, which builds run its products and attention, and which
    /// products of a model in integers are none.
    pub fn plan_text(&self) -> String {
        let route = self.usual();
        let stage = route.stage(None).unwrap_or(&route.source.encoders[0]);
        let builds = self.runner().map(|runner| runner.builds(&stage.plan)).unwrap_or_default();
        format!("{}{builds}{}", stage.plan, stage.plan.other_products(route.integers))
    }
}

impl Route {
    /// The modules that texts pass through.
    fn own_modules(&self) -> Vec<(String, String)> {
        let spec = &self.spec;
        let head = self.head.as_ref().map_or("", |_| ", with its head");
        let transformer = format!("{}, {} layers of {}{head}", self.model_type, spec.layers.len(), spec.hidden);
        // The mean is part of a StaticEmbedding.
        let (mut modules, heads) = match self.modules.first {
            First::Transformer => (vec![("Transformer".to_owned(), transformer)], &self.modules.heads[..]),
            First::StaticEmbedding => {
                let table = format!("{} tokens of {}", spec.words.rows, spec.hidden);
                (vec![("StaticEmbedding".to_owned(), table)], &self.modules.heads[1..])
            }
        };
        modules.extend(heads.iter().map(|head| {
            let (name, settings) = head.shown();
            (name.to_owned(), settings)
        }));
        modules
    }

    /// The settings of the modules that texts pass through.
    fn own_settings(&self) -> Vec<Value> {
        let (hidden, limit) = (self.spec.hidden, self.max_seq_length());
        let (task, output) = match self.modules.task {
            None => ("feature-extraction", "token_embeddings"),
            Some(Task::Scores) => ("sequence-classification", "scores"),
            Some(Task::Words) => ("fill-mask", "token_embeddings"),
        };
        let (first, heads) = match self.modules.first {
            First::Transformer => {
                let lower = self.sentence.do_lower_case;
                let settings = json!({
                    "transformer_task": task, "module_output_name": output, "do_lower_case": lower,
                    "embedding_dimension": hidden, "max_seq_length": limit,
                });
                (settings, &self.modules.heads[..])
            }
            First::StaticEmbedding => {
                let rows = self.spec.words.rows;
                let settings = json!({"num_embeddings": rows, "embedding_dim": hidden, "max_seq_length": limit});
                (settings, &self.modules.heads[1..])
            }
        };
        let mut columns = Columns { tokens: hidden, sentence: hidden };
        let mut settings = vec![first.as_object().cloned().unwrap_or_default()];
        settings.extend(heads.iter().map(|head| {
            let mut found = head.settings(&mut columns);
            if let Head::Pooling { .. } = head {
                found.insert("include_prompt".into(), self.include_prompt.load(Relaxed).into());
            }
            found
        }));
        let named = |((kind, _), settings): ((String, String), Map<String, Value>)| {
            Value::Object(Map::from_iter([("kind".to_owned(), kind.into())].into_iter().chain(settings)))
        };
        self.own_modules().into_iter().zip(settings).map(named).collect()
    }
}

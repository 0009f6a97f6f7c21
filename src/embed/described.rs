//! The modules of a model as text.

use super::EmbeddingModel;
use crate::model::heads::First;

impl EmbeddingModel {
    /// Names of the modules in order, each with one line of its settings, e.g. `Pooling: mean`; a Router is one, with the
    /// names of its routes' modules.
    pub fn modules(&self) -> Vec<(String, String)> {
        let mut own = self.own_modules().into_iter();
        let Some(listing) = &self.listing else { return own.collect() };
        let mut modules = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let described = own.next();
            match listing.router(row.place) {
                None => modules.extend(described),
                Some(routes) if number == 0 || self.rows[number - 1].place != row.place => {
                    modules.push(("Router".to_owned(), routes));
                }
                Some(_) => {}
            }
        }
        modules
    }

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
}

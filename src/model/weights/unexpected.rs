//! Which tensors that nothing reads are refused: those that would change the form of the model that reads the others.
//!
//! A model's form is what its configuration says. A layer beyond the stated ones, a bias, norm or expert beside the parts of
//! a layer, a convolution of the encoder tell that the checkpoint is of another form, so that its numbers would be others.
//! Heads, projections and whatever else lies outside the encoder change nothing.

use std::collections::HashSet;

use super::Needed;
use crate::model::registry::is_marked;
use crate::model::spec::NameRules;

/// The form of a model, by the names of the tensors that it reads.
pub(super) struct Form<'a> {
    /// Modules that have a tensor of their own.
    modules: HashSet<&'a str>,
    /// What the encoder's names begin with.
    parts: HashSet<&'a str>,
    rules: &'a NameRules,
}

impl<'a> Form<'a> {
    pub(super) fn of(needed: &'a [Needed], rules: &'a NameRules) -> Self {
        let head: HashSet<&str> = rules.head.iter().map(String::as_str).collect();
        let names = || needed.iter().map(|needed| needed.name.as_str()).filter(|name| !is_of_module(name));
        Form {
            modules: names().filter_map(module).collect(),
            parts: names().filter(|name| !head.contains(name)).map(part).collect(),
            rules,
        }
    }

    /// Whether a tensor of this uniform name, which nothing reads, belongs to what has this form.
    pub(super) fn includes(&self, name: &str, stored: &str) -> bool {
        // sentence-transformers loads the modules' own files with nothing left over.
        is_of_module(name)
            || !self.rules.ignores(name)
                && (self.parts.contains(part(name))
                    || module(name).is_some_and(|module| self.modules.contains(module))
                    || [name, stored].iter().any(|name| is_marked(name, &self.rules.prefixes)))
    }
}

/// Whether it is in the folder of a module after the first.
fn is_of_module(name: &str) -> bool {
    name.contains('/')
}

/// A name without its last part.
fn module(name: &str) -> Option<&str> {
    Some(name.rsplit_once('.')?.0)
}

/// The first part of a name.
fn part(name: &str) -> &str {
    name.split_once('.').map_or(name, |(part, _)| part)
}

//! The modules that a folder lists: one after another, and a Router among them with several lists, of which a task
//! chooses one.

mod router;
#[cfg(test)]
mod tests;

use std::path::{Component, Path};

use serde_json::Value;

use super::fields::{Fields, shown};
use super::files::read_bytes;
use crate::{Error, Result};
use router::Router;

/// A module that texts pass through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Last component of the class's name, e.g. `Pooling`; the whole name of a class outside sentence-transformers.
    pub kind: String,
    /// Folder, relative to the model's and verified to stay inside it.
    pub path: String,
    /// Whether the module itself takes the task, as modules.json says.
    pub takes_task: bool,
    /// Place in modules.json of the module, or of the Router that has it.
    pub place: usize,
}

/// One entry of `modules.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Listed {
    Module(Row),
    Router(Router),
}

/// `modules.json` of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Not empty.
    modules: Vec<Listed>,
}

/// The modality of all texts.
const TEXT: &str = "text";

impl Listing {
    /// Reads `modules.json` and the settings of each Router; `None` if there is no `modules.json`.
    ///
    /// # Errors
    /// `ModelFormat` for unreadable or invalid files and paths that leave the folder; `Unsupported` for a Router within
    /// another.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join("modules.json");
        if !path.exists() {
            return Ok(None);
        }
        let list = |row: Row| match Router::is(&row) {
            true => Ok(Listed::Router(Router::read(folder, &row)?)),
            false => Ok(Listed::Module(row)),
        };
        let modules = read_rows(&path)?.into_iter().map(list).collect::<Result<Vec<_>>>()?;
        match modules.is_empty() {
            true => Err(Error::format(&path, "lists no modules")),
            false => Ok(Some(Listing { modules })),
        }
    }

    /// The same list with modules after it that have no files of their own.
    pub fn followed_by(mut self, kinds: &[&str]) -> Self {
        for kind in kinds {
            let place = self.modules.len();
            let row = Row { kind: (*kind).to_owned(), path: String::new(), takes_task: false, place };
            self.modules.push(Listed::Module(row));
        }
        self
    }

    /// Whether it lists a module of this kind outside routes.
    pub fn lists(&self, kind: &str) -> bool {
        self.modules.iter().any(|module| matches!(module, Listed::Module(row) if row.kind == kind))
    }

    /// The modules that texts of a task pass through, in order.
    ///
    /// # Errors
    /// `InvalidArgument` for a task without a route, listing those that have one.
    pub fn choose(&self, task: Option<&str>) -> Result<Vec<Row>> {
        let mut chosen: Vec<Row> = Vec::new();
        // Modules after the first know the modality if the first passes it on.
        let told =
            self.starts_with_routes() || matches!(&self.modules[0], Listed::Module(row) if row.kind == "Transformer");
        for module in &self.modules {
            match module {
                Listed::Module(row) => chosen.push(row.clone()),
                Listed::Router(router) => chosen.extend_from_slice(router.route(task, told.then_some(TEXT))?),
            }
        }
        Ok(chosen)
    }

    /// All that tasks choose, each once: what the routes choose, in their order, then the rest.
    ///
    /// # Errors
    /// As [`Listing::choose`], if no task chooses any.
    pub fn choices(&self) -> Result<Vec<Vec<Row>>> {
        let names = self.routers().flat_map(|router| router.tasks().map(Some));
        let mut choices: Vec<Vec<Row>> = Vec::new();
        // The last is no task's name: some Routers have a route for any.
        for task in names.chain([None, Some("\0")]) {
            match self.choose(task) {
                Ok(rows) if !choices.contains(&rows) => choices.push(rows),
                _ => {}
            }
        }
        if choices.is_empty() { self.choose(None).map(|rows| vec![rows]) } else { Ok(choices) }
    }

    /// Whether a task chooses among modules.
    pub fn has_routes(&self) -> bool {
        self.routers().next().is_some()
    }

    /// Whether it does so from the first module on.
    pub fn starts_with_routes(&self) -> bool {
        matches!(self.modules[0], Listed::Router(_))
    }

    /// The routes of the Router at a place as text; `None` if another module is there.
    pub fn router(&self, place: usize) -> Option<String> {
        match self.modules.get(place)? {
            Listed::Module(_) => None,
            Listed::Router(router) => Some(router.to_string()),
        }
    }

    /// The modules as JSON objects, those of a Router by the name of their route; `settings` gives those of a module that
    /// texts pass through.
    pub fn settings(&self, settings: impl Fn(&Row) -> Value) -> Vec<Value> {
        let each = |module: &Listed| match module {
            Listed::Module(row) => settings(row),
            Listed::Router(router) => router.settings(&settings),
        };
        self.modules.iter().map(each).collect()
    }

    fn routers(&self) -> impl Iterator<Item = &Router> {
        self.modules.iter().filter_map(|module| match module {
            Listed::Router(router) => Some(router),
            Listed::Module(_) => None,
        })
    }
}

fn read_rows(path: &Path) -> Result<Vec<Row>> {
    let fault = |problem: String| Error::format(path, problem);
    let listing: Value =
        serde_json::from_slice(&read_bytes(path)?).map_err(|e| fault(format!("not valid JSON: {e}")))?;
    let Value::Array(items) = &listing else {
        return Err(fault(format!("holds {}, expected a list of modules", shown(&listing))));
    };
    let mut rows = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let Value::Object(values) = item else {
            return Err(fault(format!("lists {}, expected an object with path and type", shown(item))));
        };
        let mut fields = Fields::new(values, path);
        let (class, place) = (fields.text("type"), fields.text("path"));
        for (key, value) in [("type", class), ("path", place)] {
            if value.is_none() && fields.get(key).is_none() {
                fields.fault(format!("a module has no {key}"));
            }
        }
        let takes_task = fields.texts("kwargs").is_some_and(|names| names.contains(&"task"));
        fields.done()?;
        let row = Row::new(class.unwrap_or_default(), place.unwrap_or_default(), number).map_err(fault)?;
        rows.push(Row { takes_task, ..row });
    }
    Ok(rows)
}

impl Row {
    /// The module of a class in a folder, which does not take the task.
    fn new(class: &str, path: &str, place: usize) -> Result<Self, String> {
        if !stays_inside(path) {
            return Err(format!("the path {path:?} leaves the model's folder"));
        }
        // A class of another package may have the same name with a different meaning.
        let known = class.strip_prefix("sentence_transformers.").and_then(|rest| rest.rsplit('.').next());
        Ok(Row { kind: known.unwrap_or(class).to_owned(), path: path.to_owned(), takes_task: false, place })
    }
}

/// Whether a relative path names the folder itself or something below it. Only the text is checked: in the hub's cache
/// each file is a link to a store outside the folder.
fn stays_inside(path: &str) -> bool {
    let foreign = path.contains(['\\', ':', '\0']);
    !foreign && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

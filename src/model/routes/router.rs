//! The Router of sentence-transformers, which its older versions call Asym: modules for each of several routes.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Row;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::files::{Ordered, read_as, read_json};
use crate::{Error, Result};

/// File names of its settings; the second is that of older versions.
const FILES: [&str; 2] = ["router_config.json", "config.json"];

/// Modules for each of several routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Router {
    /// In the order of the file; none is empty.
    routes: Vec<(String, Vec<Row>)>,
    /// Name of the route for texts without a task.
    default: Option<String>,
    /// Routes by task and modality, of which `None` stands for any.
    mappings: Vec<([Option<String>; 2], String)>,
}

impl Router {
    /// Whether a module is a Router.
    pub(super) fn is(row: &Row) -> bool {
        ["Router", "Asym"].contains(&row.kind.as_str())
    }

    /// Reads the settings of the Router at `row`.
    ///
    /// # Errors
    /// `ModelFormat` naming the faults of its file; `Unsupported` for a Router within it.
    pub(super) fn read(folder: &Path, row: &Row) -> Result<Self> {
        let folder = folder.join(&row.path);
        let path = FILES.map(|name| folder.join(name)).into_iter().find(|path| path.exists());
        let path = path.unwrap_or_else(|| folder.join(FILES[0]));
        let values = read_json(&path)?;
        let mut fields = Fields::new(&values, &path);
        let [types, structure, parameters] = ["types", "structure", "parameters"].map(|key| {
            if fields.get(key).is_none() {
                fields.fault(format!("{key} is missing"));
            }
            fields.object(key)
        });
        if types.is_none() || structure.is_none() || parameters.is_none() {
            return Err(fields.done().err().unwrap_or_else(|| Error::format(&path, "no settings of a Router")));
        }
        let modules = read_types(&mut fields, &path, row)?;
        let routes = read_routes(&mut fields, &path, &modules)?;
        let (default, mappings) =
            fields.within("parameters", |inner| read_parameters(inner, &routes)).unwrap_or_default();
        fields.done()?;
        Ok(Router { routes, default, mappings })
    }

    /// The modules of the route of a task and a modality, in the order in which sentence-transformers looks for it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, naming the tasks that have one.
    pub(super) fn route(&self, task: Option<&str>, modality: Option<&str>) -> Result<&[Row]> {
        let mapped = |key: [Option<&str>; 2]| {
            let found = self.mappings.iter().find(|(known, _)| known.each_ref().map(Option::as_deref) == key);
            found.map(|(_, route)| route.as_str())
        };
        let named = |name: &&str| self.modules(name).is_some();
        let mut found = [[task, modality], [task, None], [None, modality], [None, None]].into_iter().find_map(mapped);
        found = found.or(task.filter(named)).or(modality.filter(named));
        if task.is_none() {
            found = found.or(self.default.as_deref());
        }
        found.and_then(|name| self.modules(name)).ok_or_else(|| {
            let given = match task {
                Some(task) => format!("task is {task:?}"),
                None => "no task is given, and the model has no default route".into(),
            };
            Error::InvalidArgument(format!("{given}, expected one of {:?}", self.tasks().collect::<Vec<_>>()))
        })
    }

    /// The settings as a JSON object; `settings` gives those of a module.
    pub(super) fn settings(&self, settings: &impl Fn(&Row) -> Value) -> Value {
        let routes =
            self.routes.iter().map(|(name, rows)| json!([name, rows.iter().map(settings).collect::<Vec<_>>()]));
        json!({
            "kind": "Router",
            "default_route": self.default,
            "route_mappings": self.mappings,
            "routes": routes.collect::<Vec<_>>(),
        })
    }

    fn modules(&self, route: &str) -> Option<&[Row]> {
        self.routes.iter().find(|(name, _)| name == route).map(|(_, rows)| &rows[..])
    }

    /// The tasks that have a route: by its name, then by a mapping.
    pub(super) fn tasks(&self) -> impl Iterator<Item = &str> {
        let mapped = self.mappings.iter().filter_map(|([task, _], _)| task.as_deref());
        self.routes.iter().map(|(name, _)| name.as_str()).chain(mapped)
    }
}

impl Display for Router {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (place, (name, rows)) in self.routes.iter().enumerate() {
            let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
            let default = if self.default.as_ref() == Some(name) { " (default)" } else { "" };
            write!(formatter, "{}{name}{default}: {}", if place > 0 { "; " } else { "" }, kinds.join(", "))?;
        }
        Ok(())
    }
}

/// The modules of a Router, by the names under which its routes list them.
fn read_types(fields: &mut Fields<'_>, path: &Path, router: &Row) -> Result<Vec<(String, Row)>> {
    let mut modules = Vec::new();
    for (id, class) in fields.object("types").into_iter().flatten() {
        let Some(class) = class.as_str() else {
            fields.fault(format!("types: {id:?} is {}, expected the name of a class", shown(class)));
            continue;
        };
        let place = PathBuf::from(&router.path).join(id);
        match Row::new(class, &place.to_string_lossy(), router.place) {
            Ok(row) if Router::is(&row) => {
                return Err(unsupported(path, format_args!("types: {id:?} is a Router"), "none is known in another"));
            }
            Ok(row) => modules.push((id.clone(), row)),
            Err(problem) => fields.fault(format!("types: {problem}")),
        }
    }
    Ok(modules)
}

/// The routes, in the order of the file.
fn read_routes(fields: &mut Fields<'_>, path: &Path, modules: &[(String, Row)]) -> Result<Vec<(String, Vec<Row>)>> {
    #[derive(serde::Deserialize)]
    struct File {
        structure: Ordered,
    }
    let mut routes = Vec::new();
    for (name, listed) in read_as::<File>(path)?.structure.0 {
        let ids = listed.as_array().filter(|ids| !ids.is_empty());
        if ids.is_none() {
            fields.fault(format!("structure: {name:?} is {}, expected a list of modules", shown(&listed)));
        }
        let mut rows = Vec::new();
        for id in ids.into_iter().flatten() {
            match modules.iter().find(|(known, _)| id.as_str() == Some(known)) {
                Some((_, row)) => rows.push(row.clone()),
                None => fields.fault(format!("structure: {name:?} has {}, which is not among types", shown(id))),
            }
        }
        routes.push((name, rows));
    }
    if routes.is_empty() {
        fields.fault("structure has no route".into());
    }
    Ok(routes)
}

type Parameters = (Option<String>, Vec<([Option<String>; 2], String)>);

/// The default route and the mappings.
fn read_parameters(fields: &mut Fields<'_>, routes: &[(String, Vec<Row>)]) -> Parameters {
    let known = |name: &str| routes.iter().any(|(known, _)| known == name);
    let first =
        if fields.flag_or("allow_empty_key", true) { routes.first().map(|(name, _)| name.clone()) } else { None };
    let default = fields.text("default_route").map(str::to_owned).or(first);
    if let Some(name) = default.as_ref().filter(|name| !known(name)) {
        fields.fault(format!("default_route is {name:?}, which structure does not have"));
    }
    let mut mappings = Vec::new();
    for (key, route) in fields.object("route_mappings").into_iter().flatten() {
        match (pair(key), route.as_str().filter(|name| known(name))) {
            (None, _) => fields.fault(format!("route_mappings: {key:?} is not a pair of a task and a modality")),
            (_, None) => fields.fault(format!(
                "route_mappings: {key:?} has the route {}, which structure does not have",
                shown(route)
            )),
            (Some(Some(key)), Some(route)) => mappings.push((key, route.to_owned())),
            (Some(None), Some(_)) => {}
        }
    }
    for key in fields.unread() {
        fields.fault(format!("{key} is not a parameter of a Router"));
    }
    (default, mappings)
}

/// Task and modality of a pair as Python writes it, such as `('query', None)`; `Some(None)` for one of several
/// modalities, which no text has.
fn pair(key: &str) -> Option<Option<[Option<String>; 2]>> {
    let (mut json, mut quote) = (String::new(), None);
    for letter in key.chars() {
        match (quote, letter) {
            (_, '\\') => return None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                json.push('"');
            }
            (Some(open), _) if letter == open => {
                quote = None;
                json.push('"');
            }
            (Some(_), '"') => json.push_str("\\\""),
            (None, '(') => json.push('['),
            (None, ')') => json.push(']'),
            (None, 'N') => json.push_str("null"),
            (None, 'o' | 'n' | 'e') => {}
            _ => json.push(letter),
        }
    }
    let parts: [Value; 2] = serde_json::from_str(&json).ok()?;
    let text = |part: &Value| match part {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text.clone())),
        _ => None,
    };
    match &parts {
        [task, Value::Array(several)] => text(task).filter(|_| several.iter().all(Value::is_string)).map(|_| None),
        [task, modality] => Some(Some([text(task)?, text(modality)?])),
    }
}

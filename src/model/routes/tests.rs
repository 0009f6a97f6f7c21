use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;

const ASK: &str = "ask_0_StaticEmbedding";

/// A folder with these rows of modules.json, and the settings of a Router in each of these folders.
fn folder(rows: &Value, routers: &[(&str, Value)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("modules.json"), rows.to_string()).unwrap();
    for (path, settings) in routers {
        fs::create_dir_all(folder.path().join(path)).unwrap();
        fs::write(folder.path().join(path).join("router_config.json"), settings.to_string()).unwrap();
    }
    folder
}

fn row(path: &str, kind: &str) -> Value {
    json!({"idx": 0, "name": "0", "path": path, "type": format!("sentence_transformers.models.{kind}")})
}

/// A Router of a table for queries and an encoder for documents, with these parameters.
fn first(parameters: Value) -> Value {
    json!({
        "types": {
            "document_1_Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
            "document_0_Transformer": "sentence_transformers.base.modules.transformer.Transformer",
            ASK: "sentence_transformers.models.StaticEmbedding"
        },
        "structure": {"ask": [ASK], "document": ["document_0_Transformer", "document_1_Pooling"]},
        "parameters": parameters
    })
}

fn listing(parameters: Value) -> Result<Listing> {
    let folder = folder(&json!([row("", "Router"), row("1_Normalize", "Normalize")]), &[("", first(parameters))]);
    Ok(Listing::read(folder.path())?.unwrap())
}

fn paths(listing: &Listing, task: Option<&str>) -> Result<Vec<String>> {
    Ok(listing.choose(task)?.into_iter().map(|row| row.path).collect())
}

#[test]
fn a_list_without_a_router_is_what_every_task_chooses() {
    let folder = folder(&json!([row("", "Transformer"), row("1_Pooling", "Pooling")]), &[]);
    let listing = Listing::read(folder.path()).unwrap().unwrap();
    let rows = listing.choose(None).unwrap();
    assert_eq!(rows.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>(), ["Transformer", "Pooling"]);
    assert_eq!((listing.choose(Some("any")).unwrap(), listing.choices().unwrap()), (rows.clone(), vec![rows]));
    assert!(!listing.has_routes() && !listing.starts_with_routes() && listing.router(0).is_none());
    assert_eq!(Listing::read(TempDir::new().unwrap().path()).unwrap(), None);
}

#[test]
fn a_task_chooses_a_route() {
    let listing = listing(json!({"default_route": "document"})).unwrap();
    let document = ["document_0_Transformer", "document_1_Pooling", "1_Normalize"];
    assert_eq!(paths(&listing, Some("ask")).unwrap(), [ASK, "1_Normalize"]);
    assert_eq!(paths(&listing, Some("document")).unwrap(), document);
    assert_eq!(paths(&listing, None).unwrap(), document);
    let choices = listing.choices().unwrap();
    assert_eq!(choices.iter().map(|rows| rows[0].path.as_str()).collect::<Vec<_>>(), [ASK, document[0]]);
    assert_eq!(choices[0].iter().map(|row| row.place).collect::<Vec<_>>(), [0, 1]);
    let error = listing.choose(Some("passage")).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    assert_eq!(error.to_string(), r#"task is "passage", expected one of ["ask", "document"]"#);
    assert!(listing.has_routes() && listing.starts_with_routes());
    let text = "ask: StaticEmbedding; document (default): Transformer, Pooling";
    assert_eq!((listing.router(0).as_deref(), listing.router(1)), (Some(text), None));
}

#[test]
fn the_first_route_is_the_default_unless_the_key_may_not_be_empty() {
    assert_eq!(paths(&listing(json!({})).unwrap(), None).unwrap()[0], ASK);
    assert_eq!(paths(&listing(json!({"allow_empty_key": true})).unwrap(), None).unwrap()[0], ASK);
    let strict = listing(json!({"allow_empty_key": false, "default_route": null, "route_mappings": {}})).unwrap();
    let error = strict.choose(None).unwrap_err().to_string();
    assert_eq!(error, r#"no task is given, and the model has no default route, expected one of ["ask", "document"]"#);
    assert_eq!(strict.choices().unwrap().len(), 2);
}

#[test]
fn mappings_go_before_names() {
    let listing = listing(json!({"route_mappings": {
        "('ask', 'text')": "document", "('fast', None)": "ask", "(None, 'image')": "ask",
        "(\"it's\", 'text')": "ask", "('ask', ('image', 'text'))": "ask"
    }}))
    .unwrap();
    let chosen = |task| paths(&listing, task).unwrap().swap_remove(0);
    assert_eq!(chosen(Some("ask")), "document_0_Transformer");
    assert_eq!((chosen(Some("fast")).as_str(), chosen(Some("it's")).as_str(), chosen(None).as_str()), (ASK, ASK, ASK));
    assert_eq!(chosen(Some("document")), "document_0_Transformer");
    let any = self::listing(json!({"route_mappings": {"(None, 'text')": "document"}})).unwrap();
    for task in [None, Some("ask"), Some("whatever")] {
        assert_eq!(paths(&any, task).unwrap()[0], "document_0_Transformer");
    }
    assert_eq!(any.choices().unwrap().len(), 1);
    let all = self::listing(json!({"route_mappings": {"(None, None)": "document"}})).unwrap();
    assert_eq!(paths(&all, Some("ask")).unwrap()[0], "document_0_Transformer");
}

#[test]
fn a_later_router_knows_the_modality_only_from_an_encoder() {
    let router = json!({
        "types": {"a": "sentence_transformers.models.Normalize", "b": "sentence_transformers.models.Normalize"},
        "structure": {"one": ["a"], "two": ["b"]}, "parameters": {"route_mappings": {"(None, 'text')": "two"}}
    });
    for (kind, chosen) in [("Transformer", "1_Router/b"), ("StaticEmbedding", "1_Router/a")] {
        let folder = folder(&json!([row("", kind), row("1_Router", "Router")]), &[("1_Router", router.clone())]);
        let listing = Listing::read(folder.path()).unwrap().unwrap();
        assert_eq!(paths(&listing, None).unwrap()[1], chosen);
        assert!(listing.has_routes() && !listing.starts_with_routes());
    }
}

#[test]
fn asym_of_older_versions_has_another_name_and_file() {
    let folder = folder(&json!([row("", "Asym")]), &[]);
    // The order of the routes is the file's.
    let old = r#"{
        "types": {"1_Dense": "sentence_transformers.models.Dense", "2_Dense": "sentence_transformers.models.Dense.Dense"},
        "structure": {"b": ["1_Dense"], "a": ["2_Dense"]}, "parameters": {"allow_empty_key": true}
    }"#;
    fs::write(folder.path().join("config.json"), old).unwrap();
    let listing = Listing::read(folder.path()).unwrap().unwrap();
    assert_eq!(paths(&listing, None).unwrap(), ["1_Dense"]);
    assert_eq!(listing.choose(Some("a")).unwrap()[0].kind, "Dense");
}

#[test]
fn a_modules_own_task_and_foreign_classes_are_kept() {
    let rows = json!([{"idx": 0, "name": "0", "path": "", "type": "custom_st.Transformer", "kwargs": ["task"]}]);
    let listing = Listing::read(folder(&rows, &[]).path()).unwrap().unwrap();
    let rows = listing.choose(Some("ask")).unwrap();
    assert_eq!((rows[0].kind.as_str(), rows[0].takes_task), ("custom_st.Transformer", true));
}

type Change = fn(&mut Value);

#[test]
fn faults_of_a_router_are_named() {
    let rows = json!([row("", "Router")]);
    let fault = |change: Change| {
        let mut settings = first(json!({}));
        change(&mut settings);
        let folder = folder(&rows, &[("", settings)]);
        let error = Listing::read(folder.path()).unwrap_err();
        assert!(error.to_string().contains("router_config.json"), "{error}");
        error
    };
    let changes: [(Change, &str); 13] = [
        (|s| drop(s.as_object_mut().unwrap().remove("types")), "types is missing"),
        (|s| s["structure"] = json!([]), "structure is [], expected an object"),
        (|s| s["parameters"] = Value::Null, "parameters is missing"),
        (|s| s["structure"] = json!({}), "structure has no route"),
        (|s| s["structure"]["ask"] = json!([]), "\"ask\" is"),
        (|s| s["structure"]["ask"] = json!("x"), "expected a list of modules"),
        (|s| s["structure"]["ask"] = json!(["x"]), "\"ask\" has \"x\", which is not among types"),
        (|s| s["types"][ASK] = json!(3), "expected the name of a class"),
        (|s| s["types"]["../x"] = json!("sentence_transformers.models.Dense"), "leaves the model's folder"),
        (|s| s["parameters"]["default_route"] = json!("x"), "default_route is \"x\""),
        (|s| s["parameters"]["route_mappings"] = json!({"ask": "ask"}), "is not a pair"),
        (|s| s["parameters"]["route_mappings"] = json!({"('ask', None)": "x"}), "has the route \"x\""),
        (|s| s["parameters"]["other"] = json!(true), "other is not a parameter of a Router"),
    ];
    for (change, part) in changes {
        let error = fault(change);
        assert!(matches!(error, Error::ModelFormat { .. }) && error.to_string().contains(part), "{error}");
    }
    let nested = fault(|s| s["types"][ASK] = json!("sentence_transformers.models.Router"));
    assert!(matches!(nested, Error::Unsupported { .. }), "{nested}");
    let nothing = Listing::read(folder(&rows, &[]).path()).unwrap_err();
    assert!(nothing.to_string().contains("router_config.json: no such file"), "{nothing}");
}

#[test]
fn paths_stay_inside() {
    assert!(stays_inside("") && stays_inside("./1_Pooling/") && stays_inside("a/b"));
    assert!(!stays_inside("../a") && !stays_inside("/a") && !stays_inside("a\\b"));
}

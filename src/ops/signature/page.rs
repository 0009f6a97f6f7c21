//! Writes `docs/reference/operations.md`, which git ignores, from the signatures and comments of the ops.

use std::fmt::Write;
use std::fs;

use super::{Axis, Operand, Presence, Role, with_all_operands};
use crate::ops::Op;
use crate::ops::vjp::WITHOUT;
use crate::ops::vjp::tests::with_gradients;

const PAGE: &str = "docs/reference/operations.md";

const INTRODUCTION: &str = "\
# Operations

What `grilly.functional`, models and kernels are made of, by the name that files, shaders and errors use. Roles: *rows* are
activations, a *matrix* `[N, K]` and *vectors* are weights, rows of a *table* are looked up, an *index* numbers rows, columns or
elements of another operand, *offsets* are boundaries between these, a *key* is what something is sorted by, a *scalar* may
change from run to run. *Gradients* are the operands that have one; a fused operation without kernels of its own for them has
those of its steps.
";

/// The comment of an op's struct, which is its name in camel case.
fn comment(name: &str) -> String {
    let camel: String = name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    for entry in fs::read_dir("src/ops").unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lines: Vec<&str> = text.lines().collect();
        let declared = |line: &&str| {
            line.starts_with(&format!("pub struct {camel} ")) || line.starts_with(&format!("pub struct {camel}("))
        };
        let Some(end) = lines.iter().position(declared) else { continue };
        let start = lines[..end]
            .iter()
            .rposition(|line| !line.starts_with("///") && !line.starts_with("#["))
            .map_or(0, |at| at + 1);
        let comment = lines[start..end].iter().filter_map(|line| line.strip_prefix("///"));
        return comment
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
            .replace("[`", "`")
            .replace("`]", "`");
    }
    panic!("no file of src/ops declares {camel}")
}

fn role(role: Role) -> String {
    let axis = |axis| match axis {
        Axis::Rows => "rows",
        Axis::Columns => "columns",
        Axis::Elements => "elements",
    };
    match role {
        Role::Index { into, axis: of, least } => format!("index of {} of `{into}`, from {least}", axis(of)),
        Role::Offsets { of, axis: Axis::Elements, .. } => format!("offsets of the elements of `{of}`"),
        Role::Offsets { of, .. } => format!("offsets of `{of}`"),
        Role::Count { of } => format!("count of rows of `{of}`"),
        other => other.name().to_owned(),
    }
}

fn row(text: &mut String, operand: &Operand) {
    let types = match operand.stored {
        Some(dtype) => dtype.name().into_owned(),
        None if operand.is_integer() => "int32, uint32".to_owned(),
        None if operand.role == Role::Any => "any".to_owned(),
        None if operand.narrow => "float32, float16, bfloat16".to_owned(),
        None => "float32".to_owned(),
    };
    let when = match operand.presence {
        Presence::Required => "",
        Presence::Optional => "may be left out",
        Presence::Attribute => "if the attribute asks for it",
    };
    writeln!(text, "| `{}` | {} | {types} | {when} |", operand.name, role(operand.role)).unwrap();
}

fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    for name in Op::NAMES {
        let op = with_all_operands(name);
        write!(text, "\n## {name}\n\n{}\n\n| operand | role | types | |\n|---|---|---|---|\n", comment(name)).unwrap();
        op.operands().iter().for_each(|operand| row(&mut text, operand));
        let result = |result: &Operand| {
            let place = op.operands().iter().any(|operand| operand.name == result.name);
            format!("`{}`{}", result.name, if place { " (in its place)" } else { "" })
        };
        let results: Vec<String> = op.results().iter().map(result).collect();
        let groups = if op.signature().grouped { " Operands come in groups like this." } else { "" };
        writeln!(text, "\nResults: {}.{groups}", results.join(", ")).unwrap();
        let gradients: Vec<String> = with_gradients(name).iter().map(|name| format!("`{name}`")).collect();
        match WITHOUT.iter().find(|(without, _)| without == name) {
            Some((_, reason)) => writeln!(text, "\nNo derivative: {reason}.").unwrap(),
            None => writeln!(text, "\nGradients: {}.", gradients.join(", ")).unwrap(),
        }
    }
    text
}

#[test]
fn every_op_is_on_the_page() {
    let page = page();
    assert!(Op::NAMES.iter().all(|name| page.contains(&format!("\n## {name}\n"))));
    assert!(!page.contains("[`"), "a link that only Rust's documentation follows");
    fs::write(PAGE, page).unwrap();
}

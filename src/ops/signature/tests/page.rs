//! Writes `docs/reference/operations.md`, which git ignores, from the signatures and comments of the ops.

use std::fmt::Write;
use std::fs;

use crate::ops::signature::{Axis, Operand, Presence, Role};
use crate::ops::{Example, Op};

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
            ["struct", "type"].iter().any(|kind| {
                let rest = line.strip_prefix(&format!("pub {kind} {camel}"));
                rest.is_some_and(|rest| rest.starts_with([' ', '(']))
            })
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
        Presence::Required => String::new(),
        Presence::Optional => "may be left out".to_owned(),
        Presence::Filled(number) => format!("{number} where left out"),
        Presence::Attribute => "if the attribute asks for it".to_owned(),
    };
    writeln!(text, "| `{}` | {} | {types} | {when} |", operand.name, role(operand.role)).unwrap();
}

/// What any form of an op has, in the order in which the forms add it.
fn every(forms: &[(Op, &Example)], of: fn(&Op) -> &'static [Operand]) -> Vec<&'static Operand> {
    let mut found: Vec<&Operand> = Vec::new();
    for operand in forms.iter().flat_map(|(op, _)| of(op)) {
        if !found.iter().any(|known| known.name == operand.name) {
            found.push(operand);
        }
    }
    found
}

fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    for name in Op::NAMES {
        let forms: Vec<_> = Op::examples().into_iter().filter(|(op, _)| op.name() == *name).collect();
        let op = &forms[0].0;
        let operands = every(&forms, Op::operands);
        write!(text, "\n## {name}\n\n{}\n\n| operand | role | types | |\n|---|---|---|---|\n", comment(name)).unwrap();
        operands.iter().for_each(|operand| row(&mut text, operand));
        let result = |result: &Operand| {
            let place = operands.iter().any(|operand| operand.name == result.name);
            format!("`{}`{}", result.name, if place { " (in its place)" } else { "" })
        };
        let results: Vec<String> = every(&forms, Op::results).into_iter().map(result).collect();
        let groups = if op.signature().grouped { " Operands come in groups like this." } else { "" };
        writeln!(text, "\nResults: {}.{groups}", results.join(", ")).unwrap();
        let derived = |op: &Op, row: &Example| row.2.iter().map(|place| op.operand(*place).name).collect::<Vec<_>>();
        let gradients = forms.iter().map(|(op, row)| derived(op, row)).max_by_key(Vec::len).unwrap();
        let gradients: Vec<String> = gradients.iter().map(|name| format!("`{name}`")).collect();
        match op.no_derivative() {
            Some(reason) => writeln!(text, "\nNo derivative: {reason}.").unwrap(),
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

//! The functions of a shader file, each compiled separately.
//!
//! A separate line `// function: name` declares a function; it is built with `-DENTRY_name`, and its entry point is
//! still `main`. A file without such lines has one function, `main`, built without a macro.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// The function of a file that declares none.
pub(super) const MAIN: &str = "main";

/// The functions that a file declares, in order.
///
/// # Errors
/// `CompilationFailed` for a name that is not an identifier or is a duplicate.
pub(super) fn declared(shader: &str, file: &str, text: &str) -> Result<Vec<String>> {
    let mut functions: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(name) = line.trim().strip_prefix("//").and_then(|rest| rest.trim_start().strip_prefix("function:"))
        else {
            continue;
        };
        let name = name.trim();
        let fault = |what: &str| Error::CompilationFailed {
            shader: shader.to_owned(),
            problem: format!("{file}:{}: error: function {name:?} {what}", number + 1),
            remedy: "a function is declared by a line of its own, \"// function: name\"".into(),
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(fault("is not a name of letters, digits and underscores"));
        }
        if functions.iter().any(|known| known == name) {
            return Err(fault("is declared twice"));
        }
        functions.push(name.to_owned());
    }
    if functions.is_empty() {
        functions.push(MAIN.to_owned());
    }
    Ok(functions)
}

/// `defines` with the macro of a function added.
pub(super) fn defines(defines: &BTreeMap<String, String>, function: &str) -> BTreeMap<String, String> {
    let mut defines = defines.clone();
    if function != MAIN {
        defines.insert(format!("ENTRY_{function}"), "1".into());
    }
    defines
}

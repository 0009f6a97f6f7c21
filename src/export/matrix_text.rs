//! The text of kernels on matrix cores: what the functions that a module only declares do, and what CUDA writes otherwise.

use super::matrices::Declared;

/// The functions on matrices in Metal's language.
const METAL: &str = include_str!("metal-matrix.h");
const NAMESPACE: &str = "using namespace metal;\n";

/// The text of a module in Metal's language, whose declared functions call those of a header.
///
/// # Errors
/// A function that the text does not have.
pub(super) fn with_bodies(mut text: String, functions: &[Declared]) -> Result<String, String> {
    for Declared { name, calls } in functions {
        let missing = || format!("the translation has no {name}");
        let start = text.find(&format!(" {name}(")).ok_or_else(missing)?;
        let open = start + text[start..].find("\n{\n").ok_or_else(missing)?;
        let close = open + text[open..].find("\n}\n").ok_or_else(missing)?;
        let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let (result, count) = (text[line..start].trim().to_owned(), text[start..open].matches("given_").count());
        let given: Vec<String> = (0..count).map(|place| format!("given_{place}")).collect();
        // The value that the body returned.
        let unused = |line: &str| line.starts_with(&format!("constant {result} _")) && line.ends_with(" = {};\n");
        let of = if result == "void" { String::new() } else { format!("<{result}>") };
        let back = if result == "void" { "" } else { "return " };
        text.replace_range(open..close, &format!("\n{{\n    {back}matrix_{calls}{of}({});", given.join(", ")));
        // An array is a pointer to its first element.
        text = text.replace(&format!(" {name}(&"), &format!(" {name}("));
        text = text.split_inclusive('\n').filter(|line| !unused(line)).collect();
    }
    Ok(text)
}

/// A text in Metal's language with what its functions call.
pub(super) fn with_header(msl: &str) -> String {
    msl.replacen(NAMESPACE, &format!("{NAMESPACE}\n{METAL}"), 1)
}

/// CUDA C++ of a product whose sums begin at a number that the compiler does not know: where it knows that this is 0, a product of
/// 8192 x 8192 x 8192 takes 1.24 times as long on an H200.
pub(super) fn with_unknown_start(cuda: &str) -> String {
    cuda.replace("matrix_all<FloatSum>(given_0)", "matrix_all<FloatSum>(given_0 + float(blockDim.z - 1u))")
}

/// Loops of a constant number of steps, over elements that are to be in registers.
pub(super) fn unrolled(text: &str) -> String {
    let constant = |line: &str| {
        let (start, rest) = line.trim_start().strip_prefix("for (uint ")?.split_once("; ")?;
        let bound = rest.split_once(" < ")?.1.split_once("; ")?.0;
        start.ends_with(" = 0u").then_some(())?;
        bound.strip_suffix('u')?.parse::<u32>().ok()
    };
    let pragma = |line: &str| if constant(line).is_some() { "#pragma unroll\n" } else { "" };
    text.split_inclusive('\n').map(|line| pragma(line).to_owned() + line).collect()
}

/// Matrices that are operands, their elements two in a word.
pub(super) fn packed(text: &str) -> String {
    let types = ["Half", "Bfloat"].into_iter().flat_map(|element| ["Left", "Right"].map(|of| (element, of)));
    types.fold(text.to_owned(), |text, (element, of)| {
        let (start, element) = (format!("struct {element}{of}\n{{\n    "), element.to_lowercase());
        text.replace(&format!("{start}{element} e[8];"), &format!("{start}eight<{element}> e;"))
    })
}

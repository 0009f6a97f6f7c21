//! The numbers of the enums that shaders switch over, as GLSL, read from the Rust source: a number stands in one place.

/// The files with such enums, each marked `#[repr(u32)]`.
pub const SOURCES: [&str; 5] =
    ["src/ops/activation.rs", "src/ops/binary.rs", "src/ops/normalize.rs", "src/ops/pool.rs", "src/ops/reduce.rs"];

/// A line per member: `#define ACTIVATION_GELU_ERF 1u` for `ActivationKind::GeluErf = 1`; `Kind` and `Mode` are left out.
pub fn numbers(file: &str, source: &str) -> Result<String, String> {
    let marked = source.split_once("#[repr(u32)]\npub enum ").and_then(|(_, rest)| rest.split_once(" {\n"));
    let (name, members) = marked.ok_or_else(|| format!("{file}: error: no enum with #[repr(u32)]"))?;
    let prefix = capitals(name.trim_end_matches("Kind").trim_end_matches("Mode"));
    let lines = members.lines().take_while(|line| *line != "}").map(str::trim);
    let members = lines.filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("#["));
    let define = |line: &str| {
        let (member, number) = line.strip_suffix(',').and_then(|line| line.split_once(" = "))?;
        let number: u32 = number.parse().ok()?;
        Some(format!("#define {prefix}_{} {number}u\n", capitals(member)))
    };
    members.map(|line| define(line).ok_or_else(|| format!("{file}: error: no number in {line:?}"))).collect()
}

/// `GELU_ERF` of `GeluErf`.
fn capitals(name: &str) -> String {
    let start = |(place, letter): (usize, char)| if place > 0 && letter.is_uppercase() { "_" } else { "" };
    name.char_indices().map(|at| format!("{}{}", start(at), at.1.to_ascii_uppercase())).collect()
}

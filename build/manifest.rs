//! Reads the kernels and their variants from the shaders, which declare them as TOML in lines that start with `//#`. A
//! shader is the kernel named after its file, and without such lines has one variant, which requires nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::capabilities::{Feature, condition};

/// One shader with its variants, in order of decreasing requirements.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel<V = Variant> {
    /// The op's name with hyphens.
    pub name: String,
    /// The GLSL file.
    pub file: PathBuf,
    /// At least one; the last requires nothing.
    pub variants: Vec<V>,
    /// The Rust structs from which its push block and its constants are made.
    pub made_of: MadeOf,
}

/// Names of Rust structs that kernels share: each has the members of the blocks of all that name it.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct MadeOf {
    /// Of push blocks.
    pub push: Option<String>,
    /// Of specialization constants.
    pub constants: Option<String>,
}

/// One build of a shader.
#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Variant {
    /// `kernel` or `kernel-variant`; as declared, only what follows the kernel's name.
    pub name: String,
    /// Storage type of activations and matrices: one of [`STORED`]. Declared for all variants at once.
    #[serde(skip)]
    pub stored: String,
    /// Whether its numbers are those of a device or the same on every device: one of [`NUMERICS`].
    #[serde(skip)]
    pub numerics: String,
    /// The storage types for which it is built, if not all of the kernel's.
    pub only: Vec<String>,
    /// Names of the required device features.
    pub needs: Vec<String>,
    /// Types of matrices, as `f16_f32`: it is built once and is a variant for each shape that a device may have of them, those
    /// after the first with the shape in their names.
    pub matrices: Option<String>,
    /// Conditions under which it is chosen, as `k >= 32`, `n % 4` or the name of a feature.
    pub when: Vec<String>,
    /// Macros, in the order of their names.
    pub defines: BTreeMap<String, String>,
}

/// The storage types for which a kernel may be built; `shaders/include/stored.glsl` has them in capitals.
pub const STORED: [&str; 3] = ["float32", "float16", "bfloat16"];

/// What the numbers of a build may mean; `shaders/include/arithmetic.glsl` is built with the macro of the second.
pub const NUMERICS: [&str; 2] = ["run", "everywhere"];

/// What a file declares: the kernel of its own name, and other kernels that are builds of the same source.
#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields, default)]
struct Declaration {
    /// Element types, each with all variants; float32 if omitted.
    stored: Option<Vec<String>>,
    /// Meanings of numbers; those of a device if omitted.
    numerics: Option<Vec<String>>,
    /// Structs that its blocks share with those of other kernels.
    made_of: MadeOf,
    /// One that needs nothing if omitted.
    variants: Vec<Variant>,
    /// The other kernels, by name.
    builds: BTreeMap<String, Build>,
}

/// A kernel with the variants of the file, each with one macro more.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct Build {
    /// The macro; its value is 1.
    define: String,
    /// The macro of the variants that are built, if not all are.
    of: Option<String>,
    /// Element types, if not the file's.
    stored: Option<Vec<String>>,
    /// Meanings of numbers, if not the file's.
    numerics: Option<Vec<String>>,
}

/// Reads all kernels under `folder`, sorted by name. `features` are the valid names in `needs`.
pub fn read(folder: &Path, features: &[&str]) -> Result<Vec<Kernel>, String> {
    let mut kernels = Vec::new();
    let is_kernel = |path: &PathBuf| !path.starts_with(folder.join("include")) && !is_part(path);
    for path in files(folder)?.into_iter().filter(is_kernel) {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        kernels.extend(parse(&text, &path, features)?);
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    match kernels.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(format!("two kernels are called {:?}", pair[0].name)),
        None => Ok(kernels),
    }
}

/// Parses the kernels of the shader at `path`.
pub fn parse(text: &str, path: &Path, features: &[&str]) -> Result<Vec<Kernel>, String> {
    let at = |fault: String| format!("{}: error: {fault}", path.display());
    // Lines keep their numbers for error messages.
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix("//#").unwrap_or_default()).collect();
    let mut file: Declaration = toml::from_str(&lines.join("\n")).map_err(|e| at(e.to_string().replace('\n', " ")))?;
    if file.variants.is_empty() {
        file.variants.push(Variant::default());
    }
    let own = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut rows = vec![(own, file.clone())];
    for (name, build) in std::mem::take(&mut file.builds) {
        let mut row = file.clone();
        row.stored = build.stored.or(row.stored);
        row.numerics = build.numerics.or(row.numerics);
        row.variants.retain(|variant| build.of.as_ref().is_none_or(|of| variant.defines.contains_key(of)));
        row.variants.iter_mut().for_each(|variant| variant.defines.extend([(build.define.clone(), "1".into())]));
        rows.push((name, row));
    }
    rows.into_iter().map(|(name, row)| kernel(name, row, path, features).map_err(at)).collect()
}

fn kernel(kernel: String, row: Declaration, path: &Path, features: &[&str]) -> Result<Kernel, String> {
    let types = row.stored.unwrap_or_else(|| vec![STORED[0].into()]);
    let numerics = row.numerics.unwrap_or_else(|| vec![NUMERICS[0].into()]);
    if kernel.is_empty() || !kernel.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Err(format!("kernel name {kernel:?} is not lower-case words joined by hyphens"));
    }
    if let Some(unknown) = types.iter().find(|s| !STORED.contains(&s.as_str())) {
        return Err(format!("{kernel}: stored names {unknown:?}, expected some of {}", STORED.join(", ")));
    }
    if let Some(unknown) = numerics.iter().find(|s| !NUMERICS.contains(&s.as_str())) {
        return Err(format!("{kernel}: numerics names {unknown:?}, expected some of {}", NUMERICS.join(", ")));
    }
    if let Some(unknown) = row.variants.iter().flat_map(|v| &v.only).find(|s| !STORED.contains(&s.as_str())) {
        return Err(format!(
            "{kernel}: only names the unknown type {unknown:?}, expected some of {}",
            STORED.join(", ")
        ));
    }
    let mut variants: Vec<Variant> = Vec::new();
    let named = |name: &str| numerics.iter().any(|own| own == name);
    let types = types.iter().filter(|_| named(NUMERICS[0])).map(|stored| (stored.as_str(), NUMERICS[0]));
    // The same numbers on every device are float32.
    let types = types.chain(named(NUMERICS[1]).then_some((STORED[0], NUMERICS[1]))).collect::<Vec<_>>();
    let shaped: Vec<Variant> = super::emit::all(row.variants.into_iter().map(shapes))?.concat();
    let each = types.iter().flat_map(|of| shaped.iter().cloned().map(move |variant| (*of, variant)));
    let built = |((stored, _), variant): &((&str, &str), Variant)| {
        variant.only.is_empty() || variant.only.iter().any(|own| own == stored)
    };
    for ((stored, numerics), variant) in each.filter(built) {
        if let Some(unknown) = variant.needs.iter().find(|n| !features.contains(&n.as_str())) {
            return Err(format!("{kernel}: unknown feature {unknown:?}, expected one of {}", features.join(", ")));
        }
        if let Some(fault) = variant.when.iter().find(|text| condition(text).is_none()) {
            return Err(format!("{kernel}: no condition {fault:?}, expected as \"k >= 32\" or \"software_device\""));
        }
        let float32 = stored == STORED[0];
        // A suffix is needed only to distinguish several types.
        let suffix = match () {
            () if types.len() == 1 => "",
            () if numerics == NUMERICS[1] => numerics,
            () if float32 => "",
            () => stored,
        };
        let words = [&*kernel, &variant.name, suffix].into_iter().filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join("-");
        if variants.iter().any(|v| v.name == name) {
            return Err(format!("{kernel}: two variants are called {name:?}"));
        }
        let mut variant = Variant { name, stored: stored.into(), numerics: numerics.into(), ..variant };
        if numerics == NUMERICS[1] {
            variant.defines.insert("EVERYWHERE".into(), "1".into());
        }
        if !float32 {
            variant.defines.insert("STORED".into(), stored.to_uppercase());
        }
        variants.push(variant);
    }
    if variants.is_empty() {
        return Err(format!("{kernel}: it has no variants"));
    }
    Ok(Kernel { name: kernel, file: path.into(), variants, made_of: row.made_of })
}

/// A variant for each shape of its matrices.
fn shapes(mut variant: Variant) -> Result<Vec<Variant>, String> {
    let Some(types) = variant.matrices.take() else { return Ok(vec![variant]) };
    let of = |(place, feature): (usize, Feature)| {
        let mut one = variant.clone();
        one.needs.insert(0, feature.name().into());
        if place > 0 {
            let shape = feature.name().rsplit('_').next().unwrap_or_default();
            one.name = [&*one.name, shape].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        }
        one
    };
    let found: Vec<Variant> = Feature::matrices(&types).enumerate().map(of).collect();
    if found.is_empty() { Err(format!("no device has matrices {types:?}")) } else { Ok(found) }
}

/// Whether a file is a part of the kernel beside it: `attention.masks.glsl`.
pub fn is_part(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().contains('.'))
}

/// All GLSL files in `folder` and its folders.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|e| e == "glsl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

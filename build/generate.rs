//! Builds all kernels: compiles (to SPIR-V 1.6 for Vulkan 1.3), validates and reflects their variants, and writes the
//! modules.

mod emit;
mod everywhere;
mod kinds;
mod manifest;
mod sources;

#[path = "../src/compiler/glsl.rs"]
mod glsl;
#[path = "../src/backend/vulkan/interface.rs"]
mod interface;
#[path = "../src/backend/vulkan/reflect.rs"]
mod reflect;
#[path = "../src/backend/vulkan/relative_ids.rs"]
mod relative_ids;
#[path = "../src/backend/vulkan/spirv.rs"]
mod spirv;
#[path = "../src/backend/vulkan/raw/spirv_tools.rs"]
mod spirv_tools;

/// The features that a manifest may name are those for which a device is queried.
#[allow(dead_code)]
#[path = "../src/backend/vulkan/capabilities.rs"]
mod capabilities;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use glsl::Request;
use lzma_rust2::{LzmaOptions, LzmaWriter};

/// Path and text of each included file, by name.
type Includes = BTreeMap<String, (String, String)>;

/// The most bytes of a module of `shaders/elementwise`: functions are inlined, so that each call of a long one counts.
const LONGEST_ELEMENTWISE: usize = 60_000;

/// Writes the modules and returns the text of `kernels.rs`, or the faults of all shaders, one per line, as
/// `file:line: error: what`.
pub fn generate(out: &Path) -> Result<String, String> {
    let shaders = Path::new("shaders");
    println!("cargo::rerun-if-changed=shaders");
    println!("cargo::rerun-if-changed=src/backend/vulkan/capabilities.rs");
    let features: Vec<&str> = capabilities::Feature::ALL.iter().map(|f| f.name()).collect();
    let kernels = manifest::read(shaders, &features)?;
    let includes = includes(shaders)?;
    // Threads take the next kernel until none is left; results are in the order of the kernels.
    let next = AtomicUsize::new(0);
    let done: Vec<_> = kernels.iter().map(|kernel| (kernel, OnceLock::new())).collect();
    let work = || {
        while let Some((kernel, result)) = done.get(next.fetch_add(1, Relaxed)) {
            result.get_or_init(|| build(kernel, &includes));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(kernels.len());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut built = emit::all(done.into_iter().filter_map(|(_, result)| result.into_inner()))?;
    let mut modules: Vec<u32> = Vec::new();
    for kernel in &mut built {
        let mut known: Vec<(usize, Vec<u32>)> = Vec::new();
        for variant in &mut kernel.variants {
            // Of matrices of several shapes there is one module.
            let same = known.iter().find(|(_, words)| *words == variant.spirv);
            variant.first = same.map_or(modules.len(), |(first, _)| *first);
            if same.is_none() {
                known.push((variant.first, variant.spirv.clone()));
                modules.extend(&variant.spirv);
            }
        }
    }
    std::fs::write(out.join("modules.lzma"), packed(&modules).expect("memory takes it")).expect("OUT_DIR is writable");
    Ok(emit::emit(&built, &sources::sources(&includes)?)? + &emit::includes(&includes))
}

/// All modules as LZMA with a dictionary that holds them whole, by numbers of four bytes.
fn packed(modules: &[u32]) -> std::io::Result<Vec<u8>> {
    let mut words = modules.to_vec();
    relative_ids::to_differences(&mut words);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    relative_ids::to_ids(&mut words);
    assert!(words == modules, "a module is not what its differences give");
    let mut options = LzmaOptions::with_preset(9);
    options.dict_size = (bytes.len() as u32).next_power_of_two();
    (options.lc, options.lp) = (0, 2);
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(bytes.len() as u64))?;
    writer.write_all(&bytes)?;
    writer.finish()
}

/// Compiles every variant twice: the module that the device runs, and unoptimised for its interface, with every binding,
/// push constant and specialization constant under its name, used or not.
fn build(kernel: &manifest::Kernel, includes: &Includes) -> Result<emit::Kernel, String> {
    let file = kernel.file.display().to_string();
    let text = std::fs::read_to_string(&kernel.file).map_err(|e| format!("{file}: error: {e}"))?;
    let mut variants: Vec<emit::Variant> = Vec::new();
    for row in &kernel.variants {
        let built =
            |variant: &&emit::Variant| (&variant.row.defines, &variant.row.numerics) == (&row.defines, &row.numerics);
        if let Some(same) = variants.iter().find(built) {
            variants.push(emit::Variant { row: row.clone(), ..same.clone() });
            continue;
        }
        let compile = |named| {
            let target = (shaderc::EnvVersion::Vulkan1_3, shaderc::SpirvVersion::V1_6);
            let request = Request { text: &text, file: &file, defines: &row.defines, target, named, strict: true };
            request.compile(|requested, from, _| include(includes, requested, from)).map(|(words, _)| words)
        };
        let at = |fault: String| format!("{file}: error: variant {}: {fault}", row.name);
        let named = compile(true)?;
        // An optimiser may compute with constants, and loses `precise`.
        let spirv = match row.numerics == manifest::NUMERICS[1] {
            true => everywhere::everywhere(&named).map_err(at)?,
            false => compile(false)?,
        };
        spirv_tools::validate(&spirv).map_err(at)?;
        let bytes = 4 * spirv.len();
        if kernel.file.starts_with("shaders/elementwise") && bytes > LONGEST_ELEMENTWISE {
            return Err(at(format!("{bytes} bytes of SPIR-V, at most {LONGEST_ELEMENTWISE} in this folder")));
        }
        let interface = reflect::reflect(&named, reflect::Names::Required).map_err(at)?;
        variants.push(emit::Variant { row: row.clone(), spirv, first: 0, interface });
    }
    let manifest::Kernel { name, file, made_of, .. } = kernel.clone();
    Ok(emit::Kernel { name, file, variants, made_of })
}

fn include(includes: &Includes, requested: &str, from: &str) -> glsl::Included {
    let found = includes.get(requested).ok_or_else(|| format!("{from}: no file {requested:?} is included anywhere"))?;
    Ok(found.clone())
}

/// The files of `shaders/include`, by path, the parts of kernels beside them, by name, and the numbers of enums as `kinds.glsl`.
fn includes(shaders: &Path) -> Result<Includes, String> {
    let mut found = Includes::new();
    for path in manifest::files(shaders)? {
        let included = path.strip_prefix(shaders.join("include")).ok();
        let part = manifest::is_part(&path).then(|| path.file_name().unwrap_or_default().as_ref());
        if let Some(name) = included.or(part) {
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: error: {e}", path.display()))?;
            // As shaders write it, on Windows, too.
            let name = name.display().to_string().replace(std::path::MAIN_SEPARATOR, "/");
            found.insert(name, (path.display().to_string(), text));
        }
    }
    let mut numbers = "// The numbers of the enums that shaders switch over.\n".to_owned();
    for file in kinds::SOURCES {
        println!("cargo::rerun-if-changed={file}");
        let source = std::fs::read_to_string(file).map_err(|e| format!("{file}: error: {e}"))?;
        numbers += &kinds::numbers(file, &source)?;
    }
    found.insert("kinds.glsl".into(), ("kinds.glsl".into(), numbers));
    Ok(found)
}

//! Compiles `shaders/` to SPIR-V and writes their Rust interfaces to `$OUT_DIR/kernels.rs`, with the modules beside it.
//!
//! ```text
//! shaders/**/*.glsl ── manifest ─▶ rows ── compile ─▶ SPIR-V ── validate, reflect ─▶ interfaces ── emit ─▶ kernels.rs
//! ```

#[cfg(feature = "vulkan")]
#[path = "build/generate.rs"]
mod generate;

#[cfg(feature = "vulkan")]
use generate::generate;

#[expect(clippy::disallowed_methods, reason = "cargo speaks to build scripts by variables")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    match generate(&out) {
        Ok(text) => std::fs::write(out.join("kernels.rs"), text).expect("OUT_DIR is writable"),
        Err(errors) => {
            for line in errors.lines() {
                println!("cargo::error={line}");
            }
            std::process::exit(1);
        }
    }
}

#[cfg(not(feature = "vulkan"))]
fn generate(_out: &std::path::Path) -> Result<String, String> {
    Ok(String::new())
}

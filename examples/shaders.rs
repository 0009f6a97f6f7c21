//! Writes GLSL, SPIR-V and interface of every kernel to a folder: `cargo run --release --example shaders -- FOLDER`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("expected a folder")?;
    println!("{} shaders in {folder}", grilly::export::shaders(Path::new(&folder))?);
    Ok(())
}

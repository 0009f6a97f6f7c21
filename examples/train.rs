//! Trains the smallest transformer on the bytes of a file: `cargo run --release --example train -- FILE FOLDER [DEVICE]`.

use std::path::Path;

use grilly::array::Engine;
use grilly::train::{Files, Run, Sampling, Schedule, TrainOptions, TransformerConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, folder, rest @ ..] = &arguments[..] else { return Err("expected a file and a folder".into()) };
    let engine = Engine::of(rest.first().map_or("vulkan", String::as_str))?;
    let text = std::fs::read(file)?;
    let files = Files { text: &text, folder: Path::new(folder) };
    let config = TransformerConfig::tiny();
    println!("{} parameters on {}", config.parameter_count()?, engine.device());

    let schedule = Schedule::Cosine { warmup: 20, least: 0.1 };
    let options = TrainOptions { steps: Some(200), learning_rate: 1e-3, schedule, ..TrainOptions::default() };
    let mut run = Run::new(&engine, files, config, options)?;
    run.finish(|step| println!("step {}: loss {:.4}, held out {:?}", step.step, step.loss, step.held_out_loss))?;

    let prompt = run.trainer().vocabulary().encode(&text[..32])?;
    let sampling = Sampling { temperature: 0.8, top_k: Some(40), ..Sampling::default() };
    let found = run.trainer().generate(&prompt, 200, &sampling)?;
    println!("{}", String::from_utf8_lossy(&run.trainer().vocabulary().decode(&found)?));
    Ok(())
}

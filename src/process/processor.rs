//! The name of the processor.

use std::collections::BTreeSet;

/// Entries of Linux' `/proc/cpuinfo` that name the processor: of x86, of boards, of cores of ARM.
const ENTRIES: [&str; 3] = ["model name", "Model", "CPU part"];

/// What the system calls the processor, by which two kinds of machine differ; its architecture where it says nothing.
pub fn name() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let found = named(&told);
    if found.is_empty() { std::env::consts::ARCH.to_owned() } else { found }
}

/// The names in a text of that form, each once.
fn named(text: &str) -> String {
    let entry = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let place = ENTRIES.iter().position(|known| *known == key.trim())?;
        Some((place, value.trim().to_owned()))
    };
    let names: BTreeSet<(usize, String)> = text.lines().filter_map(entry).collect();
    names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_core_is_named_once() {
        let cores = "processor\t: 0\nmodel name\t: A CPU: 2 GHz\n\nprocessor\t: 1\nmodel name\t: A CPU: 2 GHz\n";
        assert_eq!(named(cores), "A CPU: 2 GHz");
        let board = "CPU part\t: 0xd0b\nCPU part\t: 0xd05\nCPU part\t: 0xd0b\nModel\t\t: A board\n";
        assert_eq!(named(board), "A board, 0xd05, 0xd0b");
        assert_eq!(named(""), "");
        assert!(!name().is_empty());
    }
}

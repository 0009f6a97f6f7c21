#!/usr/bin/env bash
# Writes .cargo/config.toml (not in git), so that plain `cargo build`, `cargo test` and maturin find the shaderc library that
# scripts/shaderc.sh keeps, and build pyo3 alike.
#
# usage: scripts/cargo-config.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$("$root/scripts/shaderc.sh")

wanted="# Written by scripts/cargo-config.sh.
[env]
# An environment variable of the same name goes first.
SHADERC_LIB_DIR = \"$folder\"
# What maturin would write, and so the same for clippy and the wheel: pyo3 is compiled anew whenever this changes.
PYO3_CONFIG_FILE = { value = \"python/pyo3-config.txt\", relative = true, force = true }"
mkdir -p "$root/.cargo"
if [ "$(cat "$root/.cargo/config.toml" 2>/dev/null)" != "$wanted" ]; then
    printf '%s\n' "$wanted" >"$root/.cargo/config.toml"
fi

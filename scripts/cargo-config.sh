#!/usr/bin/env bash
# Writes .cargo/config.toml (not in git), so that plain `cargo build`, `cargo test` and maturin find the shaderc library that
# scripts/shaderc.sh keeps.
#
# usage: scripts/cargo-config.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$("$root/scripts/shaderc.sh")

wanted="# Written by scripts/cargo-config.sh; an environment variable of the same name goes first.
[env]
SHADERC_LIB_DIR = \"$folder\""
mkdir -p "$root/.cargo"
if [ "$(cat "$root/.cargo/config.toml" 2>/dev/null)" != "$wanted" ]; then
    printf '%s\n' "$wanted" >"$root/.cargo/config.toml"
fi

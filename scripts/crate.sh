#!/usr/bin/env bash
# Prints the folder of a crate's sources, which Cargo downloads: for the C and C++ that it carries.
#
# usage: scripts/crate.sh NAME VERSION
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
: >"$folder/src/lib.rs"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "sources"
version = "0.0.0"
edition = "2021"

[dependencies]
$1 = "=$2"

[workspace]
TOML
cd "$folder"
cargo metadata -q --format-version 1 | "${PYTHON:-python3}" -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
print(next(pathlib.Path(p["manifest_path"]).parent for p in packages if p["name"] == sys.argv[1]))' "$1"

#!/usr/bin/env bash
# Builds libshaderc_combined.a once a machine, outside `target`, and prints the folder that holds it. The shaderc crate
# takes it from there (SHADERC_LIB_DIR) in seconds; from source it takes 6 to 10 minutes on two cores.
#
# usage: scripts/shaderc.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
library=libshaderc_combined.a

if [ -n "${SHADERC_LIB_DIR:-}" ] && [ -f "$SHADERC_LIB_DIR/$library" ]; then
    echo "$SHADERC_LIB_DIR"
    exit
fi

version=$(awk '/^name = "shaderc-sys"$/ { getline; gsub(/"/, ""); print $3 }' "$root/Cargo.lock")
target=$(rustc -vV | sed -n 's/^host: //p')
[ -n "$version" ] && [ -n "$target" ] || { echo "shaderc.sh: no shaderc-sys in Cargo.lock, or no rustc" >&2; exit 1; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/grilly
folder=$cache/shaderc-$version-$target
mkdir -p "$cache"

# One build at a time; whoever waited finds the library ready.
exec 9>"$cache/shaderc.lock"
flock 9
if [ ! -f "$folder/$library" ]; then
    echo "Building shaderc $version once for this machine (6 to 10 minutes on two cores) into $folder" >&2
    scratch=$(mktemp -d "$cache/build-XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    mkdir "$scratch/src"
    : >"$scratch/src/lib.rs"
    cat >"$scratch/Cargo.toml" <<TOML
[package]
name = "shaderc-once"
version = "0.0.0"
edition = "2021"

[dependencies]
shaderc-sys = { version = "=$version", features = ["build-from-source"] }

[workspace]
TOML
    log=$cache/shaderc-build.log
    if ! (cd "$scratch" && env -u SHADERC_LIB_DIR -u CARGO_BUILD_TARGET CARGO_TARGET_DIR="$scratch/target" \
            cargo build --release >"$log" 2>&1 9>&-); then
        tail -n 40 "$log" >&2
        echo "shaderc did not build; the whole log is $log" >&2
        exit 1
    fi
    built=$(find "$scratch/target" -name "$library" -print -quit)
    [ -n "$built" ] || { echo "shaderc built, but $library is not below $scratch/target; see $log" >&2; exit 1; }
    mkdir -p "$folder"
    cp "$built" "$folder/$library.part"
    mv "$folder/$library.part" "$folder/$library"
fi
echo "$folder"

#!/usr/bin/env bash
# Builds cargo-deny once a machine, unoptimised (it runs for a second), and links it into .venv/bin.
#
# usage: scripts/cargo-deny.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
version=0.20.2

cache=${XDG_CACHE_HOME:-$HOME/.cache}/grilly
folder=$cache/cargo-deny-$version
mkdir -p "$cache"
exec 9>"$cache/cargo-deny.lock"
flock 9
if [ ! -x "$folder/bin/cargo-deny" ]; then
    echo "Building cargo-deny $version once for this machine (a few minutes) into $folder" >&2
    log=$cache/cargo-deny-build.log
    (cd "$cache" && env -u CARGO_BUILD_TARGET CARGO_TARGET_DIR="$folder/target" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        cargo install cargo-deny --locked --version "=$version" --root "$folder" >"$log" 2>&1 9>&-) || {
        tail -n 40 "$log" >&2
        echo "cargo-deny did not build; the whole log is $log" >&2
        exit 1
    }
    rm -rf "$folder/target"
fi
ln -sf "$folder/bin/cargo-deny" "$root/.venv/bin/cargo-deny"

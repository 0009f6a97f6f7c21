#!/usr/bin/env bash
# Checks that a Rust new enough for the crate is there, and adds what is named and missing through rustup: components, and the standard
# library of targets.
#
# usage: scripts/toolchain.sh [COMPONENT|TARGET...]      components: rustfmt, clippy; targets: aarch64-unknown-linux-gnu
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
if ! found=$(rustc --version 2>/dev/null | cut -d' ' -f2) || [ -z "$found" ] || ! command -v cargo >/dev/null; then
    echo "Rust is missing (rustc and cargo); install it from https://rustup.rs and run the same command again." >&2
    exit 1
fi
if [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" != "$wanted" ]; then
    echo "grilly needs Rust $wanted or later and this is $found; run: rustup update stable" >&2
    exit 1
fi

for component in "$@"; do
    case $component in
        *-*-*)
            [ -d "$(rustc --print sysroot)/lib/rustlib/$component/lib" ] || rustup target add "$component" || {
                echo "Rust's standard library for $component is missing; run: rustup target add $component" >&2
                exit 1
            }
            continue
            ;;
        clippy) command=cargo-clippy ;;
        *) command=$component ;;
    esac
    if ! "$command" --version >/dev/null 2>&1; then
        rustup component add "$component" || {
            echo "The Rust component $component is missing; run: rustup component add $component" >&2
            exit 1
        }
    fi
done

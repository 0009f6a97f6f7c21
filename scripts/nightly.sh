#!/usr/bin/env bash
# Prints the nightly compiler, of a fixed day, of `make miri` and `make asan`, after installing it if it is missing.
#
# usage: nightly=$(scripts/nightly.sh)
set -euo pipefail
nightly=nightly-2026-05-20
installed=$(rustup component list --toolchain "$nightly" --installed 2>/dev/null || true)
if ! { grep -q ^miri <<<"$installed" && grep -q ^rust-src <<<"$installed"; }; then
    rustup toolchain install "$nightly" --profile minimal --component miri,rust-src --no-self-update >&2
fi
echo "$nightly"

#!/usr/bin/env bash
# Builds the wheel for this machine into dist/.
#
# usage: scripts/wheel.sh
#
# On Linux it is tagged manylinux_2_34, which maturin checks against the symbols the module uses. A build on a distribution
# newer than that may not pass the check; then the wheel is tagged for this machine only, and says so. scripts/wheel-cross.sh
# builds for older distributions. On macOS maturin takes the tag from MACOSX_DEPLOYMENT_TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
tag=${WHEEL_TAG:-manylinux_2_34}
# Functions of equal machine code become one, which takes 2 % off the wheel: an option of LLD, Rust's linker on this target.
fold=()
[ "$(uname -sm)" = "Linux x86_64" ] && fold=(-- -C link-arg=-Wl,--icf=all)

build() { .venv/bin/maturin build --release --locked --out dist --compression-level 9 --compatibility "$1" "${fold[@]}"; }

mkdir -p dist
rm -f dist/grilly*.whl
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! build "$tag" 2>&1 | tee "$log"; then
    grep -qiE 'not .*compliant|too-recent|auditwheel' "$log" || exit 1
    echo "wheel.sh: the module does not meet $tag when built here; building a wheel for this machine only" >&2
    rm -f dist/grilly*.whl
    build linux
fi
scripts/recompress.sh dist

#!/usr/bin/env bash
# Compresses the wheel of a folder again where advzip is installed, and lists it: the same archive in 3 % less, since libdeflate looks
# further than maturin's compressor.
#
# usage: scripts/recompress.sh FOLDER
set -euo pipefail
if command -v advzip >/dev/null; then
    advzip -q -z -2 "$1"/grilly*.whl
fi
ls -l "$1"/grilly*.whl

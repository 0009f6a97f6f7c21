#!/usr/bin/env bash
# Runs unit tests of the core in Miri: by default those of the byte products, the only place of `unsafe` without assembly, Vulkan, NVRTC
# or mapped files, none of which Miri runs.
#
# usage: scripts/miri.sh [ARGUMENT...]      arguments: of the test program, such as the name of a test
set -euo pipefail
cd "$(dirname "$0")/.."
nightly=$(scripts/nightly.sh)
[ $# -gt 0 ] || set -- simd::integers
# The instructions that Miri knows: those of AVX2, and of AVX-512 the products of bytes. Files and clocks are the machine's; threads of
# pools live until the end of the process.
export RUSTFLAGS="-C target-cpu=x86-64-v3 -C target-feature=+avx512f,+avx512vl,+avx512vnni,+avxvnni"
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-tree-borrows"
CARGO_TARGET_DIR=target/miri exec cargo "+$nightly" miri test -p grilly --lib --no-default-features --locked -- "$@"

#!/usr/bin/env bash
# Runs unit tests of the core under AddressSanitizer, with the standard library built alike. shaderc and drivers are not compiled with it,
# what they keep is no leak here, and two constants of one name in SPIRV-Cross are no fault of ours.
#
# usage: scripts/asan.sh [ARGUMENT...]      arguments: of the test program, such as the name of a test
set -euo pipefail
cd "$(dirname "$0")/.."
nightly=$(scripts/nightly.sh)
ours=detect_leaks=0:detect_odr_violation=0:detect_stack_use_after_return=1:strict_string_checks=1
export ASAN_OPTIONS="$ours${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
# As the wheel is built, with less to wait for and with more checks.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/asan exec cargo "+$nightly" test -p grilly --lib --release --locked \
    --target x86_64-unknown-linux-gnu -Zbuild-std -- "$@"

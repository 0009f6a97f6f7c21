#!/usr/bin/env bash
# Builds the release wheel for 64-bit ARM into dist/arm, on another machine: Rust's library for ARM comes from rustup; zig is the compiler
# of C++ and the linker, with the symbols of glibc 2.28, so that the wheel is tagged manylinux_2_28, and its own C++ library inside.
#
# usage: scripts/wheel-arm.sh
set -euo pipefail
cd "$(dirname "$0")/.."
triple=aarch64-unknown-linux-gnu
glibc=2.28
zig_target=aarch64-linux-gnu.$glibc

scripts/toolchain.sh "$triple"
zig=$(.venv/bin/python -c 'import importlib.util as u; print(u.find_spec("ziglang").submodule_search_locations[0])')/zig
# Checks of the compiler link nothing: zig would build its libraries for that.
shaderc=$(scripts/shaderc.sh "$zig_target" "-DCMAKE_C_COMPILER=$zig;cc;-target;$zig_target" "-DCMAKE_CXX_COMPILER=$zig;c++;-target;$zig_target" \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY)

mkdir -p dist/arm
rm -f dist/arm/grilly-*.whl
export CARGO_ZIGBUILD_ZIG_PATH=$zig
# In place of what shaderc-sys's build script would print; the one that compiles grilly's own shaders links this machine's.
.venv/bin/maturin build --release --locked --out dist/arm --compression-level 9 \
    --target "$triple" --zig --compatibility "manylinux_${glibc/./_}" \
    --config "target.$triple.shaderc.rustc-link-search=[\"native=$shaderc\"]" \
    --config "target.$triple.shaderc.rustc-link-lib=[\"static:-bundle=shaderc_combined\"]"
if command -v advzip >/dev/null; then
    advzip -q -z -2 dist/arm/grilly-*.whl
fi
ls -l dist/arm/grilly-*.whl

#!/usr/bin/env bash
# Compiles the CPU's byte products for ARM, as a crate of their own, and runs their unit test under qemu. The compiler, its standard
# library for ARM, the linker and qemu are Debian's packages, unpacked into target/arm; nothing is installed.
#
# usage: scripts/test-arm.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
arm=$root/target/arm
triple=aarch64-unknown-linux-gnu
compiler=$arm/compiler
tools=$compiler/usr/bin

"$root/scripts/unpack.sh" "$arm/qemu" amd64 qemu-user-static
"$root/scripts/unpack.sh" "$compiler" amd64 rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross
wrap() { printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$compiler/usr/lib/x86_64-linux-gnu" "$2" >"$arm/$1"; chmod +x "$arm/$1"; }
wrap rustc "$tools/rustc"
wrap gcc "$tools/aarch64-linux-gnu-gcc --sysroot=$compiler"

cat >"$arm/Cargo.toml" <<EOF
[package]
name = "byte-products"
edition = "2024"

[lib]
path = "$root/src/backend/cpu/simd/integers/mod.rs"

[dependencies]
bytemuck = "1"

[workspace]
EOF
cp "$root/Cargo.lock" "$arm/Cargo.lock"
export RUSTC=$arm/rustc CARGO_TARGET_DIR=$arm/build CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$arm/gcc
# With the dot products of ARMv8.2, which the test then finds.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$arm/qemu/usr/bin/qemu-aarch64-static -cpu max -L $compiler/usr/aarch64-linux-gnu"
cd "$arm"
exec cargo test -q --release --lib --target "$triple"

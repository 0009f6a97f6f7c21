#!/usr/bin/env bash
# Compiles the CPU's byte products for ARM, as a crate of their own, and runs their unit test under qemu. The compiler, its standard
# library for ARM, the linker and qemu are Debian's packages, unpacked into target/arm; nothing is installed.
#
# usage: scripts/test-arm.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
arm=$root/target/arm
triple=aarch64-unknown-linux-gnu
libraries=$arm/root/usr/lib/x86_64-linux-gnu
tools=$arm/root/usr/bin

if [ ! -e "$arm/ready" ]; then
    mkdir -p "$arm/lists/partial" "$arm/cache/archives/partial"
    apt() {
        apt-get -q -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o Debug::NoLocking=1 -o APT::Sandbox::User= \
            -o Dir::State::lists="$arm/lists" -o Dir::Cache="$arm/cache" "$@" >"$arm/apt.log" 2>&1 || { cat "$arm/apt.log" >&2; exit 1; }
    }
    apt update
    apt install -y --download-only --no-install-recommends \
        rustc-web libstd-rust-web-dev:arm64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
    for package in "$arm"/cache/archives/{*_amd64,*_all,libstd-rust-web-dev*_arm64}.deb; do
        dpkg -x "$package" "$arm/root"
    done
    wrap() { printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$2" >"$arm/$1"; chmod +x "$arm/$1"; }
    wrap rustc "$tools/rustc"
    wrap gcc "$tools/aarch64-linux-gnu-gcc --sysroot=$arm/root"
    rm -rf "$arm/cache" "$arm/lists"
    touch "$arm/ready"
fi

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
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$tools/qemu-aarch64-static -cpu max -L $arm/root/usr/aarch64-linux-gnu"
cd "$arm"
exec cargo test -q --release --lib --target "$triple"

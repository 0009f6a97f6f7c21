#!/usr/bin/env bash
# Builds the release wheel for a target into dist/TARGET, also for this machine's own processor: Rust's library of the target comes from
# rustup; zig is the compiler of C++ and the linker, with the symbols of glibc 2.28 or with musl 1.2, so that the wheel is tagged
# manylinux_2_28 or musllinux_1_2, and its own C++ library inside.
#
# usage: scripts/wheel-cross.sh TARGET      x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu, x86_64-unknown-linux-musl, ...
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
processor=${target%%-*}
case $target in
    *-unknown-linux-gnu) zig_target=$processor-linux-gnu.2.28 tag=manylinux_2_28 ;;
    *-unknown-linux-musl) zig_target=$processor-linux-musl tag=musllinux_1_2 ;;
    *) echo "wheel-cross.sh: no wheel is built for $target" >&2; exit 2 ;;
esac

scripts/toolchain.sh "$target"
zig=$(.venv/bin/python -c 'import importlib.util as u; print(u.find_spec("ziglang").submodule_search_locations[0])')/zig
# Checks of the compiler link nothing: zig would build its libraries for that.
shaderc=$(scripts/shaderc.sh "$zig_target" "-DCMAKE_C_COMPILER=$zig;cc;-target;$zig_target" "-DCMAKE_CXX_COMPILER=$zig;c++;-target;$zig_target" \
    -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$processor" -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY)

out=dist/$target
mkdir -p "$out"
rm -f "$out"/grilly*.whl
export CARGO_ZIGBUILD_ZIG_PATH=$zig
if [ "$target" = "$(rustc -vV | sed -n 's/^host: //p')" ]; then
    # Cargo has one shaderc for this target, and so zig links what runs during the build, too: apart from what `make wheel` has compiled.
    export CARGO_TARGET_DIR=$PWD/target/zig SHADERC_LIB_DIR=$shaderc
    mkdir -p "$CARGO_TARGET_DIR"
    for language in cc c++; do
        printf '#!/bin/sh\nexec "%s" zig %s -- -target %s "$@"\n' "$PWD/.venv/bin/maturin" "$language" "$zig_target" >"$CARGO_TARGET_DIR/$language"
        chmod +x "$CARGO_TARGET_DIR/$language"
    done
    # Libraries are linked again as zig links them, with equal functions folded, as `make wheel` does: zig takes no option for that.
    linker=$CARGO_TARGET_DIR/link/cc # by the name rustc knows how it is called
    mkdir -p "$(dirname "$linker")"
    cat >"$linker" <<EOF
#!/usr/bin/env bash
set -euo pipefail
case " \$* " in *" -shared "*) ;; *) exec "$CARGO_TARGET_DIR/cc" "\$@" ;; esac
log=\$(ZIG_VERBOSE_LINK=1 "$CARGO_TARGET_DIR/cc" "\$@" 2>&1) || { echo "\$log" >&2; exit 1; }
link=\$(sed -n 's/^ld[.]lld //p' <<<"\$log")
[ -n "\$link" ] || { echo "zig does not say how it links" >&2; exit 1; }
xargs -x -s 1000000 "$zig" ld.lld --icf=all <<<"\$link"
EOF
    chmod +x "$linker"
    export CC=$CARGO_TARGET_DIR/cc CXX=$CARGO_TARGET_DIR/c++ "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")_LINKER=$linker"
    options=()
else
    # In place of what shaderc-sys's build script would print; the one that compiles grilly's own shaders links this machine's.
    options=(--target "$target" --zig --config "target.$target.shaderc.rustc-link-search=[\"native=$shaderc\"]"
        --config "target.$target.shaderc.rustc-link-lib=[\"static:-bundle=shaderc_combined\"]")
fi
.venv/bin/maturin build --release --locked --out "$out" --compression-level 9 --compatibility "$tag" "${options[@]}"
scripts/recompress.sh "$out"

#!/usr/bin/env bash
# Builds libshaderc_combined.a once a machine, outside `target`, and prints the folder that holds it. The shaderc crate
# takes it from there (SHADERC_LIB_DIR) in seconds; left to itself it would build shaderc anew in every `target`.
#
# usage: scripts/shaderc.sh [TARGET CMAKE_OPTION...]      for another machine: its name in the cache, and how CMake crosses
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
library=libshaderc_combined.a

if [ $# = 0 ] && [ -n "${SHADERC_LIB_DIR:-}" ] && [ -f "$SHADERC_LIB_DIR/$library" ]; then
    echo "$SHADERC_LIB_DIR"
    exit
fi

version=$(awk '/^name = "shaderc-sys"$/ { getline; gsub(/"/, ""); print $3 }' "$root/Cargo.lock")
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
crossing=("${@:2}")
[ -n "$version" ] && [ -n "$target" ] || { echo "shaderc.sh: no shaderc-sys in Cargo.lock, or no rustc" >&2; exit 1; }
cache=${XDG_CACHE_HOME:-$HOME/.cache}/grilly
folder=$cache/shaderc-$version-$(cksum <"$0" | cut -d' ' -f1)-$target
mkdir -p "$cache"

# The sources come with the crate shaderc-sys; its own build script would build them all, and this builds the one library,
# for size: a third of the time, and shaders still compile in milliseconds. Functions have sections of their own, of which the linker
# takes those that are called; no exception passes through them, so they need no unwind tables.
# The folder is named after this file, too: a change of an option builds anew.
small=(-ffunction-sections -fdata-sections -fomit-frame-pointer -fno-unwind-tables -fno-asynchronous-unwind-tables)
build() {
    cd "$scratch" && sources=$("$root/scripts/crate.sh" shaderc-sys "$version")/build &&
    cmake -S "$sources" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-Os -DNDEBUG ${small[*]}" \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DENABLE_SPVREMAPPER=OFF -DENABLE_GLSLANG_BINARIES=OFF \
        -DSHADERC_SKIP_TESTS=ON -DSPIRV_SKIP_EXECUTABLES=ON -DSPIRV_WERROR=OFF "${crossing[@]}" &&
    ninja -C build shaderc_combined
}

# One build of it at a time; whoever waited finds the library ready.
exec 9>"$folder.lock"
flock 9
if [ ! -f "$folder/$library" ]; then
    log=$folder.log
    echo "Building shaderc $version for $target, once on this machine (3 to 6 minutes on two cores), into $folder; log in $log" >&2
    scratch=$(mktemp -d "$cache/build-XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    if ! (build >"$log" 2>&1 9>&-); then
        tail -n 40 "$log" >&2
        echo "shaderc did not build; the whole log is $log" >&2
        exit 1
    fi
    mkdir -p "$folder"
    cp "$scratch/build/shaderc/libshaderc/$library" "$folder/$library.part"
    mv "$folder/$library.part" "$folder/$library"
fi
echo "$folder"

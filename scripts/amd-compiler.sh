#!/usr/bin/env bash
# Runs a command with AMD's compiler and without its hardware: RADV of Mesa 25.0 from Debian's backports, in a folder, compiles for the
# family that RADV_FORCE_FAMILY names (polaris10, vega10, navi10, navi21, navi31, gfx1150, gfx1201, ...). Its device has no memory and
# runs nothing; Mesa 26 no longer has it. Libraries that this machine has, the C library first, are this machine's. Nothing is installed.
#
# usage: RADV_FORCE_FAMILY=navi31 scripts/amd-compiler.sh COMMAND...
set -euo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/grilly/amd-compiler
of_machine=/usr/lib/x86_64-linux-gnu

"$(dirname "$0")/unpack.sh" "$folder" amd64/bookworm-backports 'mesa-vulkan-drivers=25.0.*' libvulkan1
printf '{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "%s"}}\n' \
    "$folder$of_machine/libvulkan_radeon.so" >"$folder/icd.json.$$"
# Renamed when it is whole: another process may read it.
mv "$folder/icd.json.$$" "$folder/icd.json"

# Without the cache of shaders: what comes from it has no statistics.
export VK_DRIVER_FILES=$folder/icd.json VK_ICD_FILENAMES=$folder/icd.json MESA_SHADER_CACHE_DISABLE=true
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$of_machine:$folder$of_machine:$folder/lib/x86_64-linux-gnu
exec "$@"

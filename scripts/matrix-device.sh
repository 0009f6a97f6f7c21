#!/usr/bin/env bash
# Runs a command on a software device with matrix cores: lavapipe of Mesa 26.1 or later, from Debian's backports, in a folder with
# the C library that it needs. The command's own program and libraries are this machine's; programs that it starts have no such
# device. Nothing is installed.
#
# usage: scripts/matrix-device.sh COMMAND...
set -euo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/grilly/matrix-device
libraries=$folder/usr/lib/x86_64-linux-gnu

"$(dirname "$0")/unpack.sh" "$folder" amd64/trixie-backports mesa-vulkan-drivers libvulkan1 vulkan-validationlayers
printf '{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "%s"}}\n' \
    "$libraries/libvulkan_lvp.so" >"$folder/icd.json.$$"
# Renamed when it is whole: another process may read it.
mv "$folder/icd.json.$$" "$folder/icd.json"

export VK_DRIVER_FILES=$folder/icd.json VK_ICD_FILENAMES=$folder/icd.json
# Debian's stable release has a validation layer that does not know matrices. Tests may name other layers.
export VK_LAYER_PATH=${VK_LAYER_PATH:-$folder/usr/share/vulkan/explicit_layer.d}
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$(command -v "$1")" "${@:2}"

#!/usr/bin/env bash
# Runs a command on a software device with matrix cores: lavapipe of Mesa 26.1 or later, from Debian's backports, in a folder with
# the C library that it needs. The command's own program and libraries are this machine's; programs that it starts have no such
# device. Nothing is installed.
#
# usage: scripts/matrix-device.sh COMMAND...
set -euo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/grilly/matrix-device
release=trixie
libraries=$folder/root/usr/lib/x86_64-linux-gnu

if [ ! -e "$folder/ready" ]; then
    rm -rf "$folder"
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    touch "$folder/status"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 -E '/debian/?$' || echo http://deb.debian.org/debian)
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    printf "deb [signed-by=$key] ${mirror%/} %s main\n" "$release" "$release-backports" >"$folder/sources.list"
    apt() {
        apt-get -q -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o Debug::NoLocking=1 -o APT::Sandbox::User= \
            -o Dir::State::lists="$folder/lists" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" \
            -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
            "$@" >"$folder/apt.log" 2>&1 || { cat "$folder/apt.log" >&2; exit 1; }
    }
    apt update
    apt install -y --download-only --no-install-recommends -t "$release-backports" mesa-vulkan-drivers libvulkan1 vulkan-validationlayers
    for package in "$folder"/cache/archives/*.deb; do
        dpkg -x "$package" "$folder/root"
    done
    rm -rf "$folder/cache" "$folder/lists"
    printf '{"file_format_version": "1.0.1", "ICD": {"api_version": "1.4.0", "library_path": "%s"}}\n' \
        "$libraries/libvulkan_lvp.so" >"$folder/icd.json"
    touch "$folder/ready"
fi

export VK_DRIVER_FILES=$folder/icd.json VK_ICD_FILENAMES=$folder/icd.json
# Debian's stable release has a validation layer that does not know matrices.
export VK_LAYER_PATH=$folder/root/usr/share/vulkan/explicit_layer.d
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$(command -v "$1")" "${@:2}"

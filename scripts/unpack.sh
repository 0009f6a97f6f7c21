#!/usr/bin/env bash
# Unpacks Debian's packages into a folder, once. Nothing is installed. Of this machine's architecture come the named packages and what
# they need that is not installed, and of others, as NAME:ARCHITECTURE, these alone; with another ARCHITECTURE, and from another RELEASE
# (with its backports, if it is named by them), all that they need comes, from the C library on.
#
# usage: scripts/unpack.sh FOLDER ARCHITECTURE[/RELEASE[-backports]] PACKAGE...
set -euo pipefail
folder=$1 architecture=${2%/*} release=${2#"${2%/*}"} packages=("${@:3}")
release=${release#/}
[ ! -e "$folder/ready" ] || exit 0

# Of several processes one unpacks, and the others wait.
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
[ ! -e "$folder/ready" ] || exit 0

rm -rf "$folder"
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
folder=$(cd "$folder" && pwd)
if [ -z "$release" ] && [ "$architecture" = "$(dpkg --print-architecture)" ]; then
    options=(-o "APT::Architectures::=$architecture")
    for package in "${packages[@]}"; do
        [[ $package != *:* ]] || options+=(-o "APT::Architectures::=${package#*:}")
    done
else
    touch "$folder/status"
    options=(-o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o "Dir::State::status=$folder/status")
fi
if [ -n "$release" ]; then
    mirror=$("$(dirname "$0")/mirror.sh")
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    printf "deb [signed-by=$key] $mirror %s main\n" "${release%-backports}" "$release" | uniq >"$folder/sources.list"
    options+=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
        -o "APT::Default-Release=$release")
fi
apt() {
    apt-get -q "${options[@]}" -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Dir::State::lists="$folder/lists" \
        -o Dir::Cache="$folder/cache" "$@" >"$folder/apt.log" 2>&1 || { cat "$folder/apt.log" >&2; exit 1; }
}
apt update
apt install -y --download-only --no-install-recommends "${packages[@]}"
shopt -s nullglob
archives=("$folder/cache/archives"/*_{all,"$architecture"}.deb)
for package in "${packages[@]}"; do
    [[ $package != *:* ]] || archives+=("$folder/cache/archives/${package%:*}"_*_"${package#*:}".deb)
done
for archive in "${archives[@]}"; do
    dpkg -x "$archive" "$folder"
done
rm -rf "$folder/cache" "$folder/lists"
touch "$folder/ready"

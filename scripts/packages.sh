#!/usr/bin/env bash
# Installs the system packages that are missing, through apt where that is allowed (root, or sudo without a password).
# Where it is not, names them and stops. What is already there is found by what it provides, not by its package name,
# so the same script serves other distributions too: it then only names what is missing.
#
# usage: scripts/packages.sh GROUP...      groups: build, run, text, test, profiles, containers, web
set -euo pipefail

python=${PYTHON:-python3}

# group | Debian and Ubuntu package | optional or required | a command that succeeds when it is there
table='
build|build-essential|required|have cc && have c++ && have make
build|cmake|required|have cmake
build|ninja-build|required|have ninja
build|pkg-config|required|have pkg-config
build|python3-venv|required|"$python" -c "import ensurepip, venv"
build|advancecomp|optional|have advzip
run|libvulkan1|required|shared_library libvulkan.so.1
run|mesa-vulkan-drivers|required|any /usr/share/vulkan/icd.d/*.json /usr/local/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json
text|bible-kjv|required|have bible
text|bible-kjv-text|required|any /usr/lib/bible.data /usr/share/bible.data
test|mesa-vulkan-drivers|required|any /usr/share/vulkan/icd.d/lvp_icd*.json /usr/local/share/vulkan/icd.d/lvp_icd*.json
test|vulkan-validationlayers|required|any /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json /etc/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
test|spirv-tools|required|have spirv-val
test|glslc|optional|have glslc
test|chromium-common|optional|any /usr/lib/chromium/libvk_swiftshader.so
profiles|libvulkan-dev|required|any /usr/include/vulkan/vk_layer.h /usr/local/include/vulkan/vk_layer.h
containers|debootstrap|required|have debootstrap
web|chromium|required|have chromium
web|chromium-driver|required|have chromedriver
web|npm|required|have npm
'

have() { command -v "$1" >/dev/null 2>&1; }
any() { local path; for path in "$@"; do [ -e "$path" ] && return 0; done; return 1; }
shared_library() {
    local listing
    listing=$({ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null) || return 1
    [[ $listing == *"$1"* ]]
}

# missing KIND: the packages of the asked groups and this kind whose probe fails, one a line.
missing() {
    local group package kind probe
    while IFS='|' read -r group package kind probe; do
        [ -n "$group" ] && [ "$kind" = "$1" ] && [[ " $groups " == *" $group "* ]] || continue
        eval "$probe" >/dev/null 2>&1 || echo "$package"
    done <<<"$table" | sort -u
}

groups="$*"
[ -n "$groups" ] || { echo "usage: $0 GROUP...   groups: build, run, text, test, profiles, containers, web" >&2; exit 2; }
required=$(missing required)
optional=$(missing optional)
[ -n "$required$optional" ] || exit 0

asked="$required $optional"
asked=$(echo $asked)
sudo=
if have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }; then
    [ "$(id -u)" = 0 ] || sudo="sudo -n"
elif [ -n "$required" ]; then
    {
        echo "These system packages are missing, and this account may not install them:"
        echo "    $(echo $required)"
        [ -z "$optional" ] || echo "and, wanted by some tests only: $(echo $optional)"
        echo "Install them (Debian, Ubuntu: sudo apt-get install --no-install-recommends $asked)"
        echo "and run the same command again. On another distribution, install what provides the same files and commands."
    } >&2
    exit 1
else
    echo "Optional system packages are missing; the tests that need them will be skipped by name: $(echo $optional)" >&2
    exit 0
fi

apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@"; }
echo "Installing system packages: $asked"
apt update || echo "apt-get update failed; trying with the package lists at hand" >&2
if [ -n "$required" ]; then
    apt install -y --no-install-recommends $required
fi
if [ -n "$optional" ]; then
    # Not every distribution has it, and on some it is an empty shell: the tests name what they skip.
    apt install -y --no-install-recommends $optional || true
fi
hash -r

required=$(missing required)
if [ -n "$required" ]; then
    echo "Installed, and yet not found: $(echo $required)" >&2
    case " $(echo $required) " in
        *" python3-venv "*) echo "$python ($("$python" -c 'import sys; print(sys.executable)' 2>/dev/null)) lacks ensurepip; name another interpreter with PYTHON=..." >&2 ;;
    esac
    exit 1
fi

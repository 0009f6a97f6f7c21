#!/usr/bin/env bash
# Decodes the King James Bible (public domain, Debian packages bible-kjv and bible-kjv-text) once, and prints the path of
# the text: one verse a line, its reference first ("Ge1:1 In the beginning ..."), 4.4 MB.
#
# usage: scripts/text.sh
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/grilly
text=$cache/kjv.txt
if [ ! -s "$text" ]; then
    command -v bible >/dev/null || {
        echo 'text.sh: the program bible (Debian package bible-kjv) is missing; give another text: make demo ARGS="--text FILE"' >&2
        exit 1
    }
    mkdir -p "$cache"
    part=$(mktemp "$cache/kjv-XXXXXX")
    trap 'rm -f "$part"' EXIT
    bible -f 'Gen1:1-Rev22:21' </dev/null >"$part"
    size=$(wc -c <"$part")
    [ "$size" -gt 3000000 ] || { echo "text.sh: bible printed $size bytes, expected over 3,000,000" >&2; exit 1; }
    chmod 644 "$part"
    mv "$part" "$text"
fi
echo "$text"

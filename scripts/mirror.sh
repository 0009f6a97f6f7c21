#!/usr/bin/env bash
# Prints the address of the server that this machine's packages of Debian come from.
#
# usage: scripts/mirror.sh
set -euo pipefail
found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -m 1 -E '/debian/?$' || echo http://deb.debian.org/debian)
echo "${found%/}"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages of a build and uses them in a copy of this system.
# usage: run_packages.sh SOURCE_DIR BINARY_DIR
set -eu
for program in cpack dpkg-shlibdeps help2man chrpath; do
  command -v "$program" >/dev/null || { echo "packages: skipped, there is no $program"; exit 0; }
done
rm -rf "$2/packages"
"$1/scripts/package" deb "$2" "$2/packages"
"$1/scripts/package" try "$2/packages"

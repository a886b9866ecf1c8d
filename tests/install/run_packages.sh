#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages and the archive of a build, and uses them in copies of this system.
# usage: run_packages.sh SOURCE_DIR BINARY_DIR
set -eu
for program in cpack dpkg-shlibdeps help2man chrpath; do
  command -v "$program" >/dev/null || { echo "packages: skipped, there is no $program"; exit 0; }
done
rm -rf "$2/packages"
# Compressed fast: what is inside is the same.
DEB_COMPRESSION=gzip "$1/scripts/package" deb "$2" "$2/packages"
"$1/scripts/package" try "$2/packages"
if command -v zstd >/dev/null && command -v patchelf >/dev/null; then
  ZSTD_CLEVEL=1 "$1/scripts/package" archive "$2" "$2/packages"
  sh "$1/tests/install/archive.sh" "$1" "$2"/packages/tessera-*.tar.zst
else
  echo "archive: skipped, there is no zstd or no patchelf"
fi

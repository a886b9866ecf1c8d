#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks an archive of scripts/package in a copy of this system that lacks the libraries which it
# brings along, and uses it there: by g++, by pkg-config and by find_package; then once more where it
# was moved to.
# usage: archive.sh SOURCE_DIR ARCHIVE
set -eu
source=$1 archive=$2

if [ "${3:-}" != inside ]; then
  if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
    echo "archive: skipped, this needs root and namespaces"
    exit 0
  fi
  exec unshare -m sh "$0" "$source" "$archive" inside
fi

work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root" "$work/given"
cp -r "$source/tests/install/consumer" "$work/given/consumer"
cp "$archive" "$work/given/archive.tar.zst"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" ||
  { echo "archive: skipped, no overlay can be mounted here"; exit 0; }
mkdir "$work/root/given"
mount --bind "$work/given" "$work/root/given"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"

cat >"$work/given/use.sh" <<'INSIDE'
set -eu
cd /given
export HOME=/given
find /usr/lib /usr/local/lib \( -name 'libopenblas*' -o -name 'libtbb*' -o -name 'libfmt*' -o \
  -name 'libxxhash*' -o -name 'libLLVM*' -o -name 'libtessera*' \) -exec rm -rf {} + 2>/dev/null || true
ldconfig
mkdir opt
tar -xf archive.tar.zst -C opt
set -- opt/*
mv "$1" place
use() {
  place=$1
  lib=$(dirname "$(find "$place" -name libtessera.so)")
  "$place/bin/tessera" --version
  "$place/bin/tessera" devices >/dev/null
  # The module for processes uses the system's MPI; nothing else may lack something.
  lacking=$(find "$place" -name '*.so*' -type f ! -name 'libtessera-mpi.so' ! -path '*/licences/*' -exec ldd {} \; | grep 'not found' || true)
  test -z "$lacking" || { echo "FAILED: $lacking"; exit 1; }
  # The source is compiled for one of them; all headers are found at both places.
  g++ -std=c++20 -M consumer/main.cc "-I$place/include" >headers
  [ -e main.o ] || g++ -std=c++20 -c consumer/main.cc -o main.o "-I$place/include"
  g++ main.o -o by_gxx "-L$lib" -ltessera "-Wl,-rpath,$lib"
  ./by_gxx
  PKG_CONFIG_PATH=$lib/pkgconfig
  export PKG_CONFIG_PATH
  g++ -std=c++20 -M consumer/main.cc $(pkg-config --cflags tessera) >headers
  g++ main.o -o by_pkg_config $(pkg-config --libs tessera) "-Wl,-rpath,$lib"
  ./by_pkg_config
  rm -rf by_cmake
  cmake -S consumer -B by_cmake "-DCMAKE_PREFIX_PATH=$place" >log 2>&1 || { cat log; exit 1; }
  cmake --build by_cmake >log 2>&1 || { cat log; exit 1; }
  by_cmake/consumer
  test -s "$place/share/doc/tessera/sbom.spdx.json"
  test -s "$place/share/doc/tessera/LICENSE"
}
use /given/place
mkdir /given/else
mv /given/place /given/else/where
use /given/else/where
INSIDE
chroot "$work/root" sh /given/use.sh || { echo "FAILED: using the archive"; exit 1; }
echo "archive: ok"

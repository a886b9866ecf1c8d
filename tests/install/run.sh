#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the build into a prefix, moves the prefix, then builds and runs a consumer against it
# through find_package and through pkg-config.
# usage: run.sh CMAKE GENERATOR CXX SOURCE_DIR BINARY_DIR
set -eu
cmake=$1 generator=$2 cxx=$3 source=$4 binary=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/moved

"$cmake" --install "$binary" --prefix "$work/first" >/dev/null
mv "$work/first" "$prefix"

# Nothing that is installed as text may name the places where it was built or first installed.
if grep -rlF -e "$source" -e "$binary" -e "$work" \
    --include='*.cmake' --include='*.pc' --include='*.h' "$prefix"; then
  echo "FAILED: the files above hold a path of the machine that built them"
  exit 1
fi

(cd "$source/include" && find tessera -name '*.h') >"$work/headers"
while IFS= read -r header; do
  test -f "$prefix/include/$header" || {
    echo "FAILED: $header is not installed"
    exit 1
  }
done <"$work/headers"

library=$(find "$prefix" -name 'libtessera.so.0.2')
test -n "$library" || { echo "FAILED: no libtessera.so.0.2 in the prefix"; exit 1; }
libdir=$(dirname "$library")

if [ -e "$binary/libtessera-llvm.so" ]; then
  test -f "$libdir/tessera/libtessera-llvm.so" ||
    { echo "FAILED: libtessera-llvm.so is not in tessera/ beside the library"; exit 1; }
fi

if [ -e "$binary/libtessera-mpi.so" ]; then
  test -f "$libdir/tessera/libtessera-mpi.so" ||
    { echo "FAILED: libtessera-mpi.so is not in tessera/ beside the library"; exit 1; }
fi

if [ -x "$binary/tessera" ]; then
  "$prefix/bin/tessera" devices >"$work/log" 2>&1 ||
    { cat "$work/log"; echo "FAILED: the installed command does not run"; exit 1; }
fi

"$cmake" -S "$source/tests/install/consumer" -B "$work/build" -G "$generator" \
  -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
  >"$work/log" 2>&1 || { cat "$work/log"; echo "FAILED: find_package(tessera)"; exit 1; }
"$cmake" --build "$work/build" >"$work/log" 2>&1 ||
  { cat "$work/log"; echo "FAILED: the consumer does not build"; exit 1; }
"$work/build/consumer"

# A request for another minor version must be refused: the ABI may have changed.
sed 's/tessera 0\.2/tessera 0.3/' "$source/tests/install/consumer/CMakeLists.txt" \
  >"$work/CMakeLists.txt"
cp "$source/tests/install/consumer/main.cc" "$work/main.cc"
if "$cmake" -S "$work" -B "$work/build2" -G "$generator" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_CXX_COMPILER="$cxx" >/dev/null 2>&1; then
  echo "FAILED: version 0.2 was taken for 0.3"
  exit 1
fi

if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$libdir/pkgconfig
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  "$cxx" "$source/tests/install/consumer/main.cc" -o "$work/by_pkg_config" \
    $(pkg-config --cflags --libs tessera)
  LD_LIBRARY_PATH=$libdir "$work/by_pkg_config"
fi
echo "install: ok"

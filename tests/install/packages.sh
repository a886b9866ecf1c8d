#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Debian packages in a copy of this system, which is gone afterwards, and uses them there: the
# command, its manual, a program by g++, by pkg-config and by find_package, and their removal.
# usage: packages.sh SOURCE_DIR PACKAGES
set -eu
source=$1 packages=$2

if [ "${3:-}" != inside ]; then
  if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
    echo "packages: skipped, this needs root and namespaces"
    exit 0
  fi
  exec unshare -m "$0" "$source" "$packages" inside
fi

fail() {
  echo "FAILED: $*"
  exit 1
}

work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root" "$work/debs"
cp "$packages"/*.deb "$work/debs"
cp -r "$source/tests/install/consumer" "$work/debs/consumer"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root" ||
  { echo "packages: skipped, no overlay can be mounted here"; exit 0; }
mkdir "$work/root/debs"
mount --bind "$work/debs" "$work/root/debs"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"

cat >"$work/debs/use.sh" <<'INSIDE'
set -eu
cd /debs
export DEBIAN_FRONTEND=noninteractive HOME=/debs
dpkg -i ./*.deb >log 2>&1 || { cat log; echo "FAILED: dpkg -i"; exit 1; }
ldconfig -p | grep -q 'libtessera\.so\.' || { echo "FAILED: the library isn't in the cache of ldconfig"; exit 1; }
/usr/bin/tessera --version
/usr/bin/tessera devices >/dev/null
test -f /usr/share/man/man1/tessera-run.1.gz
bash -n /usr/share/bash-completion/completions/tessera
g++ -std=c++20 -c consumer/main.cc -o main.o
g++ main.o -o by_gxx -ltessera
./by_gxx
g++ -std=c++20 -M consumer/main.cc $(pkg-config --cflags tessera) >headers
g++ main.o -o by_pkg_config $(pkg-config --libs tessera)
./by_pkg_config
cmake -S consumer -B by_cmake -DCMAKE_BUILD_TYPE=Release >log 2>&1 || { cat log; exit 1; }
cmake --build by_cmake >log 2>&1 || { cat log; exit 1; }
by_cmake/consumer
cat >negate.hlo <<'HLO'
HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] negate(x)
}
HLO
cat >negate_main.c <<'C'
#include "negate.h"
int main(void) {
  negate_context* context;
  float x[NEGATE_ARGUMENT0_SIZE] = {1, 2, 3, 4}, y[NEGATE_RESULT0_SIZE];
  if (negate_init(&context) != NEGATE_OK || negate(context, x, y) != NEGATE_OK) return 1;
  negate_free(context);
  return y[3] == -4 ? 0 : 1;
}
C
tessera compile --c negate.hlo -o negate
gcc -std=c11 negate_main.c -L. -lnegate -Wl,-rpath,. -o by_c
./by_c
dpkg --purge $(for d in ./*.deb; do dpkg-deb -f "$d" Package; done) >log 2>&1 || { cat log; echo "FAILED: dpkg --purge"; exit 1; }
test ! -e /usr/bin/tessera
left=$(find /usr/include/tessera /usr/lib -name '*tessera*' 2>/dev/null | head -3)
test -z "$left" || { echo "FAILED: left behind: $left"; exit 1; }
INSIDE
chroot "$work/root" sh /debs/use.sh || fail "using the packages"
echo "packages: ok"

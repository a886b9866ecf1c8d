#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whether docs/reference/parity.md says what names.txt does, and all that it claims to be there is declared.
# usage: run.sh CXX SOURCE_DIR
set -u
cxx=$1 source=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

sh "$source/scripts/parity" --check "$source" || exit 1
sh "$source/scripts/parity" --source "$source" >"$work/names.cc" || exit 1
compile() { "$cxx" -std=c++20 "-I$source/include" -fsyntax-only "$1"; }
if ! compile "$work/names.cc"; then
  echo "names.txt claims what <tessera/tessera.h> doesn't declare"
  exit 1
fi
# The same must not compile with a name that there isn't.
sed 's/using tessera::matmul;/using tessera::matmul_of_nothing;/' "$work/names.cc" >"$work/wrong.cc"
if cmp -s "$work/names.cc" "$work/wrong.cc" || compile "$work/wrong.cc" 2>"$work/errors"; then
  echo "a name that there isn't passes"
  exit 1
fi
grep -q matmul_of_nothing "$work/errors" || exit 1
echo "$(grep -c 'using tessera::\|sizeof' "$work/names.cc") names are there"

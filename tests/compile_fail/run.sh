#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Misuse that the compiler must refuse with words of ours. Each *.cc here must compile with
# -DTESSERA_OK and must fail without it; each of its lines "// EXPECT-ERROR: regex" (grep -E) must
# match the compiler's output.
# usage: run.sh CXX SOURCE_DIR REPORT
set -u
cxx=$1 source=$2 report=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The public headers are read once for all cases.
flags="-std=c++20 -fdiagnostics-color=never -I $source/include -I $source"
echo '#include <tessera/tessera.h>' >"$work/public.h"
# shellcheck disable=SC2086
"$cxx" $flags -x c++-header "$work/public.h" -o "$work/public.h.gch" || exit 1

compile() {
  # shellcheck disable=SC2086
  "$cxx" $flags -include "$work/public.h" -fsyntax-only "$@"
}

# All cases as they must compile, in one source: each in a namespace of its own, below what all include.
together() {
  grep -h '^#include' "$source"/tests/compile_fail/*.cc | sort -u
  for case in "$source"/tests/compile_fail/*.cc; do
    echo "namespace $(basename "$case" .cc | tr -c 'a-z0-9\n' _) {"
    echo "#line 1 \"$case\""
    sed 's/^#include.*//' "$case"
    echo "}"
  done
}

# Prints nothing if the case holds, else what is wrong with it.
check() {
  sed -n 's|^// EXPECT-ERROR: *||p' "$1" >"$work/expect"
  if ! [ -s "$work/expect" ]; then
    echo "no line '// EXPECT-ERROR: regex'"
  fi
  if [ "$all_compile" -eq 0 ] && ! compile -DTESSERA_OK "$1" >"$work/out" 2>&1; then
    echo "does not compile with -DTESSERA_OK:"
    head -n 20 "$work/out"
  fi
  if compile "$1" >"$work/out" 2>&1; then
    echo "compiles, but must not"
    return
  fi
  while IFS= read -r regex; do
    if ! grep -qE -e "$regex" "$work/out"; then
      echo "the compiler's output does not match: $regex"
      head -n 20 "$work/out"
    fi
  done <"$work/expect"
}

together >"$work/together.cc"
all_compile=0
compile -DTESSERA_OK "$work/together.cc" >/dev/null 2>&1 && all_compile=1

total=0 failed=0
for case in "$source"/tests/compile_fail/*.cc; do
  [ -e "$case" ] || continue
  total=$((total + 1))
  wrong=$(check "$case")
  if [ -n "$wrong" ]; then
    failed=$((failed + 1))
    echo "FAILED ${case##*/}: $wrong"
  fi
done

if [ "$total" -eq 0 ]; then
  echo "FAILED: no case found"
  total=1 failed=1
fi
mkdir -p "$(dirname "$report")"
echo "<testsuites tests=\"$total\" failures=\"$failed\" disabled=\"0\" errors=\"0\"/>" >"$report"
echo "compile_fail: $((total - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]

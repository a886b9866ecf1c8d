#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What gdb prints of Tessera's objects: run.sh SOURCE BUILD. Left out, with a line, where there is no gdb with Python, or
# where it may not run programs.
set -u
source=$1 build=$2
printers=$source/packaging/gdb/tessera_printers.py
if ! command -v gdb >/dev/null 2>&1; then
  echo "skipped: there is no gdb"
  exit 0
fi
if ! gdb -nx -batch -ex 'python print("has python")' 2>/dev/null | grep -q 'has python'; then
  echo "skipped: gdb has no Python"
  exit 0
fi
if ! gdb -nx -batch -ex 'set startup-with-shell off' -ex 'break main' -ex run "$build/gdb_modules" 2>/dev/null |
  grep -q 'Breakpoint 1, main'; then
  echo "skipped: gdb can't run programs here"
  exit 0
fi
failed=0 checked=0
expect() {  # OUTPUT LINE
  checked=$((checked + 1))
  if ! printf '%s\n' "$1" | grep -qF -- "$2"; then
    printf 'expected: %s\nin what gdb printed:\n%s\n' "$2" "$1"
    failed=$((failed + 1))
  fi
}
gdb_on() {
  gdb -nx -batch -iex "add-auto-load-safe-path $build" -ex 'set startup-with-shell off' "$@" 2>&1
}

# The library's own copy is loaded with it.
out=$(gdb_on -ex 'break look' -ex 'break look_at_tracer' -ex run -ex 'print x' \
  -ex 'print empty' -ex 'print sharding' -ex 'print mesh' -ex 'print spec' \
  -ex 'tessera values x' -ex 'tessera values mesh' -ex continue -ex 'print tracer' "$build/gdb_arrays")
expect "$out" "\$1 = f32[2,3], NamedSharding(mesh=Mesh('data': 2, 'model': 4"
expect "$out" "\$2 = empty array"
expect "$out" "\$3 = NamedSharding(mesh=Mesh('data': 2, 'model': 4"
expect "$out" "\$4 = Mesh('data': 2, 'model': 4"
expect "$out" "\$5 = PartitionSpec('data', None)"
expect "$out" "[7, 7, 7]"
expect "$out" "\$6 = f32[2,3], tracer: multiply"

out=$(gdb_on -ex "source $printers" -ex 'break look' -ex run -ex 'print *module' -ex 'print *instruction' -ex 'print shape' \
  -ex 'print sharding' -ex 'tessera text module' -ex 'tessera text 3' "$build/gdb_modules")
expect "$out" "\$1 = module looked_at: 2 instructions, 1 computations, 4 partitions, 1 replicas"
expect "$out" "\$2 = y = f32[8,16]{1,0} negate(x)"
expect "$out" "\$3 = f32[8,16]"
expect "$out" "HloModule looked_at"
expect "$out" "which is none of Tessera's types"

# Without a process, from a core file: what debug information tells.
core=$build/gdb_modules.core
rm -f "$core"
gdb_on -ex 'break look' -ex run -ex "generate-core-file $core" "$build/gdb_modules" >/dev/null
if [ -s "$core" ]; then
  out=$(gdb_on -ex "source $printers" -ex 'frame function look' -ex 'print *module' -ex 'print *instruction' -ex 'print shape' \
    "$build/gdb_modules" "$core")
  expect "$out" "module looked_at"
  expect "$out" "y = f32[8,16] negate"
  expect "$out" "= f32[8,16]"
fi
rm -f "$core"
echo "$((checked - failed)) of $checked texts are as expected"
[ "$failed" -eq 0 ]

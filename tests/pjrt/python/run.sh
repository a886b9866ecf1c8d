#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one file of cases against the plugin. usage: run.sh PYTHON LIBRARY NAME; processes_N: JAX in N
# processes, and processes_failures, processes_document. 77: no JAX there, or no mpirun.
python=$1 library=$2 name=$3
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v "$python" >/dev/null 2>&1 || ! "$python" -c 'import jax, jaxlib' 2>/dev/null; then
  echo "skipped: there is no Python with JAX (TESSERA_JAX_PYTHON; scripts/jax_python makes one)"
  exit 77
fi
export JAX_TESSERA_LIBRARY="$library"
case $name in
  conform)
    "$python" -c 'import pypjrt' 2>/dev/null || { echo "skipped: there is no pypjrt"; exit 77; }
    exec "$python" -m pypjrt.conform "$library" ;;
  garbage)
    "$python" -c 'import pypjrt' 2>/dev/null || { echo "skipped: there is no pypjrt"; exit 77; }
    exec "$python" "$here/garbage.py" "$library" ;;
  processes_*) exec "$python" "$here/processes.py" "${name#processes_}" ;;
  wheel) exec "$python" "$here/wheel.py" "$here/../../.." "$(dirname "$library")" ;;
  package) exec "$python" "$here/package.py" "$here/../../../python" "$library" ;;
  *) exec "$python" "$here/support.py" "$name" ;;
esac

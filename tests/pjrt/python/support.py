# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of a file on the plugin and on JAX's own backend for CPUs, and compares.

A case is a function whose name begins with case_; it returns a tree of arrays and numbers, or
nothing if it checks all itself. Each backend runs all cases of a file in a process of its own.
"""
import importlib
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import traceback

DEVICES = 8
# Sums are in another order, and functions are others: relative to the largest of an array.
TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-4, "complex64": 2e-4,
             "float64": 1e-10, "complex128": 1e-10}


def environment(backend, scratch):
  env = dict(os.environ, JAX_PLATFORMS="cpu", JAX_ENABLE_COMPILATION_CACHE="0")
  env.pop("PJRT_NAMES_AND_LIBRARY_PATHS", None)
  env["PYTHONPATH"] = str(pathlib.Path(__file__).parent)
  env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
  if backend == "plugin":
    plugin = pathlib.Path(scratch) / "plugin.json"
    plugin.write_text(json.dumps({"library_path": os.environ["JAX_TESSERA_LIBRARY"],
                                  "create_options": {"cpu_device_count": DEVICES}}))
    env["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"cpu:{plugin}"
  return env


def on_plugin():
  """In the child: whether its devices are the plugin's."""
  return "PJRT_NAMES_AND_LIBRARY_PATHS" in os.environ


def under_shardings(run):
  """run(sharding) for four shardings over all devices. What they give is the same: JAX's own backend,
  whose programs take long to compile, computes it once, and that is what all four are compared with."""
  import jax
  import numpy as np
  from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
  mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
  specs = [P(), P("x"), P("y"), P(("x", "y"))]
  if on_plugin():
    return [run(NamedSharding(mesh, s)) for s in specs]
  return [run(NamedSharding(mesh, specs[0]))] * len(specs)


def cases_of(name):
  module = importlib.import_module(name)
  return [(k, f) for k, f in vars(module).items() if k.startswith("case_")]


def run_cases(name, out, only):
  """In the child: results, or the text of an error, of each case."""
  import jax
  import numpy as np
  made = {}
  for case, function in cases_of(name):
    if only and not re.search(only, case):
      continue
    try:
      made[case] = ("value", jax.tree.map(np.asarray, function()))
    except BaseException:  # a case may do anything
      made[case] = ("error", traceback.format_exc())
    with open(out, "wb") as file:
      pickle.dump(made, file)


def differences(got, want):
  import jax
  import numpy as np
  got, got_tree = jax.tree.flatten(got)
  want, want_tree = jax.tree.flatten(want)
  if got_tree != want_tree:
    return f"{got_tree} and not {want_tree}"
  for i, (a, b) in enumerate(zip(got, want)):
    if a.shape != b.shape or a.dtype != b.dtype:
      return f"leaf {i} is {a.dtype}{a.shape} and not {b.dtype}{b.shape}"
    limit = TOLERANCE.get(str(b.dtype))
    if limit is None:
      same = np.array_equal(a, b)
    else:
      wide = np.complex128 if np.iscomplexobj(b) else np.float64
      a, b = a.astype(wide), b.astype(wide)
      scale = max(1.0, float(np.nanmax(np.abs(b), initial=0)))
      same = np.allclose(a, b, rtol=limit, atol=limit * scale, equal_nan=True)
    if not same:
      return f"leaf {i} differs:\n{a}\nand not\n{b}"
  return None


def compare(name, only):
  results = {}
  with tempfile.TemporaryDirectory() as scratch:
    for backend in ("plugin", "own"):
      out = f"{scratch}/{backend}"
      try:
        done = subprocess.run([sys.executable, __file__, name, only, out],
                              env=environment(backend, scratch), timeout=540)
        code = done.returncode
      except subprocess.TimeoutExpired:
        code = "none: it took too long"
      results[backend] = (pickle.load(open(out, "rb")) if os.path.exists(out) else {}, code)
  failed = 0
  for case, (kind, want) in results["own"][0].items():
    kind_here, got = results["plugin"][0].get(case, ("error", "the process ended before"))
    if kind == "error":
      problem = "on JAX's own backend: " + want
    elif kind_here == "error":
      problem = got
    else:
      problem = differences(got, want)
    failed += problem is not None
    print(f"{'ok    ' if problem is None else 'FAILED'} {name}.{case}", flush=True)
    if problem is not None:
      print(problem)
  for backend, (made, code) in results.items():
    if code != 0 or not made:
      print(f"FAILED {name}: exit code {code} on the backend: {backend}")
      failed += 1
  return failed


if __name__ == "__main__":
  if len(sys.argv) == 4:
    run_cases(sys.argv[1], sys.argv[3], sys.argv[2])
  else:
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(1 if compare(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "") else 0)

# SPDX-License-Identifier: Apache-2.0
"""JAX in several processes, which mpirun starts. usage: processes.py WHAT
WHAT: a number of processes, that run the cases of across.py; failures; document
Ends with 77 if there is no mpirun, or it starts no processes here."""
import os
import pathlib
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import support

HERE = pathlib.Path(__file__).resolve().parent
MPIRUN = os.environ.get("MPIRUN_OF_TESTS") or "mpirun"


def launcher():
  """mpirun with what it needs to start more processes than there are cores; ends if it can't."""
  if shutil.which(MPIRUN) is None:
    print(f"skipped: there is no mpirun ({MPIRUN})")
    sys.exit(77)
  version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout
  open_mpi = re.search("open.?mpi|openrte", version.lower())
  flags = ["--oversubscribe", "--allow-run-as-root"] if open_mpi else []
  if subprocess.run([MPIRUN, *flags, "-np", "2", "true"], capture_output=True).returncode != 0:
    print(f"skipped: {MPIRUN} can't start processes here")
    sys.exit(77)
  return [MPIRUN, *flags]


def environment(processes, scratch, **given):
  """As the package does it: each process has some of the devices."""
  env = support.environment("own", scratch)
  env.update(PYTHONPATH=f"{HERE}:{HERE.parent.parent.parent / 'python'}", JAX_PLATFORMS="tessera",
             JAX_TESSERA_DEVICES=str(support.DEVICES // processes), XLA_FLAGS="",
             OMPI_MCA_btl_vader_single_copy_mechanism="none",
             OMPI_MCA_btl_base_warn_component_unused="0", OMP_NUM_THREADS="1")
  env.setdefault("TESSERA_EXCHANGE_TIMEOUT", "60")
  env.update(given)
  return env


def rank():
  return int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or 0)


def free_port():
  with socket.socket() as s:
    s.bind(("localhost", 0))
    return s.getsockname()[1]


def child(out):
  """One of the processes: all cases, whose results go to a file of its own."""
  coordinator = os.environ.get("COORDINATOR")
  if coordinator:
    import jax
    jax.distributed.initialize(coordinator, int(os.environ["PROCESSES"]), rank())
  support.run_cases("across", f"{out}.{rank()}", "")


def results(command, env, out, processes):
  try:
    code = subprocess.run([*command, sys.executable, __file__, "child", out], env=env,
                          timeout=500).returncode
  except subprocess.TimeoutExpired:
    code = "none: it took too long"
  made = []
  for p in range(processes):
    path = pathlib.Path(f"{out}.{p}")
    made.append(pickle.loads(path.read_bytes()) if path.exists() else {})
  if code != 0:
    print(f"FAILED {processes} processes: exit code {code}")
  return made, int(code != 0)


def same(got, want):
  """All bits, but for what isn't a number."""
  import jax
  import numpy as np
  a, b = jax.tree.leaves(got), jax.tree.leaves(want)
  return len(a) == len(b) and all(
      np.asarray(x).dtype == np.asarray(y).dtype and np.array_equal(x, y) for x, y in zip(a, b))


def cases(n, mpirun):
  """Several processes have the bits of one, and these are right."""
  failed = 0
  with tempfile.TemporaryDirectory() as scratch:
    [own], bad = results([], support.environment("own", scratch), f"{scratch}/own", 1)
    [one], worse = results([], environment(1, scratch), f"{scratch}/one", 1)
    failed += bad + worse
    for distributed in (False, True):
      env = environment(n, scratch)
      if distributed:
        env.update(COORDINATOR=f"localhost:{free_port()}", PROCESSES=str(n))
      several, bad = results([*mpirun, "-np", str(n)], env, f"{scratch}/several", n)
      failed += bad
      for case, (kind, want) in own.items():
        problems = [want] if kind == "error" else []
        kind, alone = one.get(case, ("error", "one process ended before"))
        problem = alone if kind == "error" else support.differences(alone, want)
        problems += [problem] if problem else []
        for p in range(n):
          kind, got = several[p].get(case, ("error", f"process {p} ended before"))
          if kind == "error":
            problems.append(f"process {p}: {got}")
          elif not problems and not same(got, alone):
            problems.append(f"process {p} has {got} and not {alone}")
        how = "jax.distributed" if distributed else "mpirun"
        print(f"{'FAILED' if problems else 'ok    '} {n} processes, {how}: {case}", flush=True)
        print("".join(f"{text}\n" for text in problems), end="")
        failed += bool(problems)
  return failed


PROGRAM = """
import os, signal, sys, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
how = sys.argv[1]
last = jax.process_index() == jax.process_count() - 1
s = NamedSharding(jax.make_mesh((jax.device_count(),), ("x",)), P("x"))
x = jax.make_array_from_callback((12,), s, lambda i: np.arange(12, dtype=np.float32)[i])
total = jax.jit(jnp.sum)
assert float(total(x)) == 66
if last and how == "killed": os.kill(os.getpid(), signal.SIGKILL)
if last and how == "throws": raise ValueError("this process can't go on")
if last and how == "exits": sys.exit(5)
if last and how == "sleeps": time.sleep(8)
if how == "differs": float(jax.jit(lambda a: a.max() - a.min() if last else a.max())(x))
if last and how == "other": float(jax.jit(lambda a: a.max() - a.min())(x))
if how == "calls":
  def call(v): raise ValueError("no answer")
  float(jax.jit(lambda a: jax.pure_callback(call, jax.ShapeDtypeStruct((), a.dtype), a.sum()))(x))
for _ in range(3): float(total(x))
if how != "nothing": print("nobody noticed")
"""


def failures(mpirun):
  expected = {
      "nothing": [],
      "killed": [r"process \d, in all-(reduce|gather).*jit_sum.*(SIGTERM|has been killed)"],
      "throws": ["this process can't go on", "process [01], in all-.*process 2 has ended"],
      "exits": ["process 2 has ended"],
      "sleeps": ["nothing has arrived from process 2 for 3.0 s"],
      "differs": ["run different programs", "first that differs"],
      "other": ["process 2 exchanges something else"],
      "calls": ["no answer", "process 0 has failed in the run of 'jit__lambda"],
  }
  failed = 0
  with tempfile.TemporaryDirectory() as scratch:
    for how, words in expected.items():
      # Shorter than the sleep; where there is much else to do, Python takes long to end.
      env = environment(4, scratch, TESSERA_EXCHANGE_TIMEOUT="3" if how == "sleeps" else "90")
      begin = time.monotonic()
      done = subprocess.run([*mpirun, "-np", "3", sys.executable, "-c", PROGRAM, how], env=env,
                            capture_output=True, text=True, timeout=200,
                            encoding="utf-8", errors="replace")
      took = time.monotonic() - begin
      text = done.stdout + done.stderr
      missing = [w for w in words if not re.search(w, text)]
      bad = bool((done.returncode == 0) != (how == "nothing") or missing or took > 85)
      print(f"{'FAILED' if bad else 'ok    '} failures: {how}, {took:.0f} s", flush=True)
      if bad:
        print(f"exit code {done.returncode}; missing: {missing}\n{text}")
      failed += bad
  return failed


def document(mpirun):
  """The program of the documentation."""
  text = (HERE.parent.parent.parent / "docs/jax-plugin.md").read_text()
  programs = re.findall(r"```python\n(.*?)```", text, re.S)
  assert programs, "docs/jax-plugin.md has no program"
  failed = 0
  with tempfile.TemporaryDirectory() as scratch:
    for program in programs:
      for n in (1, 4):
        command = [*mpirun, "-np", str(n)] if n > 1 else []
        done = subprocess.run([*command, sys.executable, "-c", program],
                              env=environment(n, scratch), timeout=200)
        bad = done.returncode != 0
        print(f"{'FAILED' if bad else 'ok    '} the program of the document, {n} processes")
        failed += bad
  return failed


def main():
  what = sys.argv[1]
  mpirun = launcher()
  if what == "failures":
    return failures(mpirun)
  if what == "document":
    return document(mpirun)
  return cases(int(what), mpirun)


if __name__ == "__main__":
  if sys.argv[1] == "child":
    child(sys.argv[2])
  else:
    sys.exit(1 if main() else 0)

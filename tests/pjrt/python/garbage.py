# SPDX-License-Identifier: Apache-2.0
"""Bytecode that JAX wrote, damaged: an error each time, or a program; never a crash or a hang.

usage: garbage.py LIBRARY [CASES [SEED]]. The programs are compiled by the C API, as jaxlib would refuse
most of them before the plugin sees them. A child does the work; if it crashes, the parent says at which
case, and `garbage.py LIBRARY 1 SEED` repeats that one.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

CASES, SEED = 4000, 1
# What one program may take: they are of a few arrays of a few elements.
SECONDS = 20.0


def programs():
  """Name to (bytecode, number of partitions)."""
  import jax
  import jax.numpy as jnp
  import numpy as np
  from jax._src.lib import _jax
  from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

  mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
  rows = NamedSharding(mesh, P("x", None))

  def layer(w, x):
    h = jax.lax.scan(lambda c, v: (jnp.tanh(c @ w) + v, c.sum()), jnp.zeros((3, 4)), x)
    return h[0].sum() + h[1].sum()

  def mixed(x, i):
    y = jax.lax.cond(x.sum() > 0, jnp.sin, lambda v: jnp.sort(v, axis=0), x)
    y = y.at[i].add(2.0)[jnp.argsort(y[:, 0])]
    z = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (2, 1), (1, 1), "SAME")
    return jnp.pad(z, ((1, 2), (0, 1))), jax.random.bits(jax.random.key(3), (4,)), y.astype("bfloat16")

  def image(x, k):
    y = jax.lax.conv_general_dilated(x, k, (1, 2), "SAME")
    return jnp.fft.rfft(y), jnp.cumsum(y, axis=2), (y * 100).astype("int4")

  def per_device(x):
    return jax.lax.psum(x, "x") + jax.lax.all_gather(x, "y").sum(), jax.lax.ppermute(
        x, "x", [(0, 1), (1, 0)])

  x = np.ones((6, 4), np.float32)
  lowered = {
      "gradient": (jax.jit(jax.grad(layer)), (np.ones((4, 4), np.float32), np.ones((5, 3, 4), np.float32)), 1),
      "mixed": (jax.jit(mixed), (x, np.array([1, 2])), 1),
      "image": (jax.jit(image), (np.ones((1, 2, 8, 8), np.float32), np.ones((3, 2, 3, 3), np.float32)), 1),
      "sharded": (jax.jit(lambda a, b: jax.lax.with_sharding_constraint(jnp.sin(a @ b.T), rows),
                          in_shardings=(rows, rows)), (x, x), 4),
      "shard_map": (jax.jit(jax.shard_map(per_device, mesh=mesh, in_specs=P("x", "y"),
                                          out_specs=(P("x", "y"), P("x", "y")))), (x, ), 4),
      "callback": (jax.jit(lambda a: jax.pure_callback(np.sin, a, a) + 1, donate_argnums=0), (x, ), 1),
  }
  out = {}
  for name, (function, arguments, partitions) in lowered.items():
    module = function.lower(*arguments).compiler_ir("stablehlo")
    out[name] = (_jax.mlir.serialize_portable_artifact(str(module), "1.13.7", True), partitions)
  return out


def damaged(code, rng):
  out = bytearray(code)
  for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
    at = rng.randrange(len(out))
    kind = rng.randrange(8)
    if kind < 3:
      out[at] ^= 1 << rng.randrange(8)
    elif kind == 3:
      out[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff, out[at] + 2 & 0xff, out[at] - 2 & 0xff))
    elif kind == 4:
      del out[at:at + rng.randrange(1, 5)]
    elif kind == 5:
      out[at:at] = rng.randbytes(rng.randrange(1, 5))
    elif kind == 6:
      length = rng.randrange(1, 9)
      other = rng.randrange(len(out))
      out[at:at + length] = out[other:other + length]
    else:
      del out[at:]
    if not out:
      return b"ML\xefR"
  return bytes(out)


def attempt(client, code, partitions):
  """Whether the plugin took it."""
  import pypjrt
  try:
    program = client.compile(code, options=pypjrt.CompileOptions(
        num_partitions=partitions, use_spmd_partitioning=partitions > 1))
  except pypjrt.errors.PjrtError as e:
    assert str(e), "an error without a message"
    return False
  program.close()
  return True


def child(library, cases, seed, progress):
  import pypjrt
  texts = programs()
  client = pypjrt.Client(pypjrt.Plugin(library), options={"cpu_device_count": 8})
  names = sorted(texts)
  for name in names:
    assert attempt(client, *texts[name]), f"{name} doesn't compile as it is"
  taken = 0
  for k in range(seed, seed + cases):
    rng = random.Random(k)
    name = names[k % len(names)]
    code = damaged(texts[name][0], rng)
    os.pwrite(progress, f"{k} ({name}) ".ljust(40).encode(), 0)
    if os.environ.get("GARBAGE_TO"):
      pathlib.Path(os.environ["GARBAGE_TO"]).write_bytes(code)
    begin = time.process_time()
    taken += attempt(client, code, texts[name][1])
    seconds = time.process_time() - begin
    assert seconds < SECONDS, f"case {k} ({name}) took {seconds:.1f} s"
  # Nothing of all that hurts what comes later.
  for name in names:
    assert attempt(client, *texts[name]), f"{name} doesn't compile any more"
  print(f"{cases} damaged programs: {cases - taken} refused, {taken} compiled")


def main():
  library = sys.argv[1]
  cases = int(sys.argv[2]) if len(sys.argv) > 2 else CASES
  seed = int(sys.argv[3]) if len(sys.argv) > 3 else SEED
  env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=8",
             TESSERA_LOG="error")
  env.pop("PJRT_NAMES_AND_LIBRARY_PATHS", None)
  with tempfile.TemporaryFile() as progress:
    done = subprocess.run([sys.executable, __file__, library, str(cases), str(seed), str(progress.fileno())],
                          env=env, pass_fds=[progress.fileno()], timeout=1000)
    if done.returncode != 0:
      at = os.pread(progress.fileno(), 40, 0).decode().strip()
      sys.exit(f"FAILED garbage: exit code {done.returncode} at case {at or 'none'}")


if __name__ == "__main__":
  if len(sys.argv) == 5:
    child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
  else:
    main()

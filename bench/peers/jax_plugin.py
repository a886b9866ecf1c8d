# SPDX-License-Identifier: Apache-2.0
"""Runs the same JAX programs on JAX's own backend for CPUs and on Tessera's plugin, in turn, and compares.

    python bench/peers/jax_plugin.py build/libtessera-pjrt.so [--only REGEX] [--rounds 5] [--json OUT] [--list]

Each program runs in processes of its own, one after the other: own, plugin, plugin, own, and so on. A row has, for both, the
least wall time and the least processor time of a call (of all threads of the process), and the ratios plugin / own: of both
times, and of the processor time of compiling and the first call, without caches. A ratio is the median of those within the
rounds; below 1 the plugin is faster. Wall times need a quiet machine; processor times suffer less from others. Results are
compared once. Needs jax, and nothing of Tessera but the plugin. Exit status 1 if a program fails or results differ.
"""
import argparse
import json
import math
import os
import pathlib
import pickle
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

DEVICES = 8
TOLERANCE = 2e-3  # of the largest element: sums are in another order


def programs():
  """name -> (function, inputs, {variant: (mesh axes, a spec for each input)})"""
  import jax
  import jax.numpy as jnp
  import numpy as np
  from jax import lax
  from jax.sharding import PartitionSpec as P

  x8, xy = {"x": 8}, {"x": 2, "y": 4}
  made = {}

  def add(*shapes, **variants):
    def keep(function):
      generator = np.random.default_rng(len(made))
      inputs = [s() if callable(s) else (generator.standard_normal(s) / 8).astype(np.float32)
                for s in shapes]
      made[function.__name__] = (function, inputs, {"one": ({}, None), **variants})
    return keep

  @add((16,), x8=(x8, [P("x")]))
  def increment(x):
    return x + 1

  @add((512, 512), (512, 512), rows=(x8, [P("x"), P()]), grid=(xy, [P("x", "y"), P("y")]))
  def product(a, b):
    return a @ b

  @add((256, 128), (128, 512), (512,), (512, 10), (256, 10), batch=(x8, [P("x"), P(), P(), P(), P("x")]),
       both=(xy, [P("x"), P(None, "y"), P("y"), P("y"), P("x")]))
  def train_two_layers(x, w, b, v, y):
    def loss(p):
      w, b, v = p
      return ((jax.nn.gelu(x @ w + b) @ v - y) ** 2).mean()
    value, gradient = jax.value_and_grad(loss)((w, b, v))
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, (w, b, v), gradient)

  @add((512, 1024), rows=(x8, [P("x")]), columns=(x8, [P(None, "x")]))
  def normalise(x):
    x = jax.nn.softmax(x, -1)
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-6)

  @add((1024, 1024), rows=(x8, [P("x")]))
  def many_functions(x):
    return jnp.tanh(x) * jnp.exp(-x ** 2) + jnp.log1p(jnp.abs(x)) * jnp.cos(x)

  @add((4, 256, 64), (4, 256, 64), (4, 256, 64), heads=(dict(x=4), [P("x")] * 3))
  def attention_gradient(q, k, v):
    def loss(q, k, v):
      scores = jnp.einsum("hqd,hkd->hqk", q, k) / 8
      allowed = jnp.tril(jnp.ones(scores.shape[1:], bool))
      return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(jnp.where(allowed, scores, -1e9), -1), v).sum()
    return jax.grad(loss, (0, 1, 2))(q, k, v)

  @add((8, 32, 32, 16), (3, 3, 16, 32), batch=(x8, [P("x"), P()]))
  def convolution_gradient(x, w):
    def loss(w):
      y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
      return jax.nn.relu(y).mean()
    return jax.value_and_grad(loss)(w)

  @add((64, 16, 64), (64, 64), batch=(x8, [P(None, "x"), P()]))
  def recurrent(x, w):
    def step(h, v):
      h = jnp.tanh(h @ w + v)
      return h, h.sum(-1)
    return lax.scan(step, jnp.zeros(x.shape[1:]), x)

  @add((512, 512), rows=(x8, [P("x")]), grid=(xy, [P("x", "y")]))
  def diffuse_20_steps(u):
    def step(_, u):
      return u + 0.1 * (sum(jnp.roll(u, s, d) for s in (1, -1) for d in (0, 1)) - 4 * u)
    return lax.fori_loop(0, 20, step, u)

  @add((4096, 64), lambda: np.arange(2048, dtype=np.int32) * 7 % 4096, rows=(x8, [P("x"), P()]))
  def look_up_gradient(table, at):
    return jax.grad(lambda t: jnp.sin(t[at]).sum())(table)

  @add((1 << 17,), x8=(x8, [P("x")]))
  def sort(x):
    return jnp.sort(x), jnp.argsort(x)

  @add((1 << 20,), x8=(x8, [P("x")]))
  def prefix_sums(x):
    return jnp.cumsum(x)

  @add((256, 1024), rows=(x8, [P("x")]))
  def fourier(x):
    return jnp.abs(jnp.fft.fft(x))

  @add((96, 96), (96, 8))
  def linear_solve(a, b):
    return jnp.linalg.solve(a @ a.T + jnp.eye(96), b)

  @add((1024, 1024), grid=(xy, [P("x", "y")]))
  def transpose_and_sum(x):
    return (x.T + 2 * x).sum(0), x.max(1)

  @add((128, 6, 6), batch=(x8, [P("x")]))
  def small_batched(a):
    return jax.vmap(lambda m: jnp.tanh(m @ m.T)[jnp.tril_indices(6)].sum())(a)

  @add((8, 65536), ring=(x8, [P("x")]))
  def shard_map_sums(x):
    if x.ndim == 2 and jax.sharding.get_abstract_mesh().shape:
      total = jax.shard_map(lambda v: lax.psum(v * 2, "x"), in_specs=P("x"), out_specs=P())
      return total(x)
    return (x * 2).sum(0, keepdims=True)

  return made


def processor_seconds():
  used = resource.getrusage(resource.RUSAGE_SELF)
  return used.ru_utime + used.ru_stime


def measure(name, variant, out):
  """In a child: one program on the backend that the environment chooses."""
  import jax
  import numpy as np
  from jax.sharding import AxisType, NamedSharding
  function, inputs, variants = programs()[name]
  axes, specs = variants[variant]
  if axes:
    count = math.prod(axes.values())
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes),
                         devices=jax.devices()[:count])
    jax.set_mesh(mesh)
    inputs = [jax.device_put(i, NamedSharding(mesh, s)) for i, s in zip(inputs, specs)]
  else:
    inputs = [jax.device_put(i) for i in inputs]
  lowered = jax.jit(function).lower(*inputs)
  wall, processor = time.perf_counter(), processor_seconds()
  program = lowered.compile()
  jax.block_until_ready(program(*inputs))
  row = {"compile_s": processor_seconds() - processor, "compile_wall_s": time.perf_counter() - wall}
  begin = time.perf_counter()
  result = jax.block_until_ready(program(*inputs))
  # Code that is optimized in the background is there after that.
  while time.perf_counter() - begin < 0.8:
    jax.block_until_ready(program(*inputs))
  walls, processors = [], []
  once = time.perf_counter()
  jax.block_until_ready(program(*inputs))
  calls = max(1, min(1000, int(0.02 / max(1e-9, time.perf_counter() - once))))
  for _ in range(12):
    wall, processor = time.perf_counter(), processor_seconds()
    for _ in range(calls):
      jax.block_until_ready(program(*inputs))
    walls.append((time.perf_counter() - wall) / calls)
    processors.append((processor_seconds() - processor) / calls)
  row.update(wall_s=min(walls), processor_s=min(processors))
  if out:
    with open(out, "wb") as file:
      pickle.dump([np.asarray(leaf) for leaf in jax.tree.leaves(result)], file)
  print(json.dumps(row))


def environment(backend, plugin, scratch):
  env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "PJRT_"))}
  env.update(JAX_PLATFORMS="cpu", JAX_ENABLE_COMPILATION_CACHE="0", TESSERA_LOG="error",
             XLA_FLAGS=f"--xla_force_host_platform_device_count={DEVICES}")
  if backend == "plugin":
    described = pathlib.Path(scratch) / "plugin.json"
    described.write_text(json.dumps({"library_path": str(plugin),
                                     "create_options": {"cpu_device_count": DEVICES}}))
    env.update(PJRT_NAMES_AND_LIBRARY_PATHS=f"cpu:{described}", TESSERA_CACHE_DIR="off")
  return env


def child(backend, args, name, variant, scratch, out=""):
  try:
    done = subprocess.run([sys.executable, __file__, "--child", name, variant, out], text=True, timeout=300,
                          capture_output=True, env=environment(backend, args.plugin, scratch))
  except subprocess.TimeoutExpired:
    raise RuntimeError(f"{backend}: takes longer than 300 s") from None
  if done.returncode != 0:
    raise RuntimeError(f"{backend}: " + (done.stderr.strip().splitlines() or ["no message"])[-1])
  return json.loads(done.stdout.splitlines()[-1])


def difference(paths):
  """Text, or nothing if the results agree."""
  import numpy as np
  got, want = (pickle.loads(pathlib.Path(p).read_bytes()) for p in paths)
  for i, (a, b) in enumerate(zip(got, want, strict=True)):
    if a.shape != b.shape or a.dtype != b.dtype:
      return f"result {i} is {a.dtype}{a.shape}, and {b.dtype}{b.shape} on JAX's own backend"
    scale = max(1e-3, float(np.abs(b).max(initial=0)))
    if not np.abs(a.astype(np.float64) - b).max(initial=0) <= TOLERANCE * scale:
      return f"result {i} differs"
  return None


def compare(args, name, variant, scratch):
  paths = {b: f"{scratch}/{b}.pickle" for b in ("plugin", "own")}
  rounds = []
  for n in range(args.rounds):
    order = ("own", "plugin") if n % 2 == 0 else ("plugin", "own")
    rounds.append({b: child(b, args, name, variant, scratch, paths[b] if n == 0 else "") for b in order})
  problem = difference((paths["plugin"], paths["own"]))
  if problem:
    raise RuntimeError(problem)
  row = {"name": f"{name}/{variant}"}
  for what in ("wall_s", "processor_s", "compile_s", "compile_wall_s"):
    for backend in paths:
      row[f"{backend}_{what}"] = min(r[backend][what] for r in rounds)
    row[what + "_ratio"] = statistics.median(r["plugin"][what] / r["own"][what] for r in rounds)
  return row


HEAD = ("program", "own ms", "plugin ms", "wall", "own cpu", "plugin cpu", "cpu", "compile")


def write(row):
  numbers = [row[f"{b}_{w}"] * 1e3 if b else row[w + "_ratio"]
             for w in ("wall_s", "processor_s") for b in ("own", "plugin", "")] + [row["compile_s_ratio"]]
  print(f"{row['name']:28}" + "".join(f"{n:11.3f}" if i in (0, 1, 3, 4) else f"{n:11.2f}"
                                      for i, n in enumerate(numbers)), flush=True)


def main():
  if sys.argv[1:2] == ["--child"]:
    return measure(*sys.argv[2:5])
  parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("plugin", type=pathlib.Path, help="libtessera-pjrt.so")
  parser.add_argument("--only", default="", help="programs whose name/variant has this")
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--json", help="a file for the rows")
  parser.add_argument("--list", action="store_true")
  args = parser.parse_args()
  args.plugin = args.plugin.resolve()
  names = [(n, v) for n, (_, _, variants) in programs().items() for v in variants
           if re.search(args.only, f"{n}/{v}")]
  if args.list:
    print("\n".join(f"{n}/{v}" for n, v in names))
    return 0
  print(f"{HEAD[0]:28}" + "".join(f"{h:>11}" for h in HEAD[1:]))
  rows, failed = [], 0
  with tempfile.TemporaryDirectory() as scratch:
    for name, variant in names:
      try:
        rows.append(compare(args, name, variant, scratch))
        write(rows[-1])
      except RuntimeError as error:
        failed += 1
        print(f"{name + '/' + variant:28} FAILED: {error}", flush=True)
  if rows:
    mean = {w: statistics.geometric_mean(r[w + "_ratio"] for r in rows)
            for w in ("wall_s", "processor_s", "compile_s")}
    print(f"{len(rows)} of {len(names)}; geometric means of plugin / own: wall {mean['wall_s']:.2f}, "
          f"processor {mean['processor_s']:.2f}, compilation (processor) {mean['compile_s']:.2f}")
  if args.json:
    pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())

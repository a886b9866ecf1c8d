# SPDX-License-Identifier: Apache-2.0
"""What is made and dropped, in one thread and in several."""
import gc
import logging
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from support import on_plugin


def resident():
  with open("/proc/self/statm") as file:
    return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def rows():
  return NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))


def case_programs_dropped():
  """Programs are compiled, run and dropped: the process doesn't grow by them."""
  if not on_plugin():
    return
  def some(first, n):
    for i in range(first, first + n):
      x = jnp.ones(8 + i % 5)
      jax.jit(lambda x, i=i: jnp.sin(x) * i + 1)(x).block_until_ready()
      if i % 50 == 49:
        jax.clear_caches()
        gc.collect()
  some(0, 300)
  before = resident()
  some(300, 500)
  grown = resident() - before
  assert grown < 20, f"{grown} MiB"


def case_arrays_dropped():
  if not on_plugin():
    return
  sharding = rows()
  f = jax.jit(lambda x: (x + 1, jnp.sum(x)), donate_argnums=0)
  g = jax.jit(lambda x: x * 2)
  host = np.ones((1024, 64), np.float32)
  def some(n):
    for _ in range(n):
      x = jax.device_put(host, sharding)
      x, total = f(x)
      np.asarray(g(x))
      np.from_dlpack(jax.device_put(host[:8])).sum()
      float(total)
  some(300)
  before = resident()
  some(1000)
  grown = resident() - before
  assert grown < 30, f"{grown} MiB"


def case_errors_dropped():
  """Calls that fail leave nothing behind."""
  if not on_plugin():
    return
  logging.disable(logging.ERROR)  # JAX prints each
  def fails(x):
    raise ValueError("on purpose")
  f = jax.jit(lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((1 << 16,), np.float32), x) + 1)
  x = jnp.ones(1 << 16)
  def some(n):
    for _ in range(n):
      try:
        f(x).block_until_ready()
        assert False
      except jax.errors.JaxRuntimeError as e:
        assert "on purpose" in str(e)
  some(30)
  before = resident()
  some(100)
  assert resident() - before < 20, resident() - before


def case_compile_while_others_run():
  sharding = rows()
  x = jax.device_put(np.arange(64, dtype=np.float32), sharding)
  step = jax.jit(lambda x: x * 0.5 + jnp.sum(x) * 1e-3)
  want = step(x)
  stop, errors, ran = threading.Event(), [], [0, 0]
  def runs(k):
    try:
      while not stop.is_set():
        if not np.array_equal(step(x), want):
          raise AssertionError("other numbers")
        ran[k] += 1
    except BaseException as e:
      errors.append(e)
  threads = [threading.Thread(target=runs, args=(k,)) for k in range(2)]
  for t in threads:
    t.start()
  out = []
  for i in range(20):
    out.append(jax.jit(lambda x, i=i: jnp.cumsum(jnp.cos(x) + i))(x))
  stop.set()
  for t in threads:
    t.join()
  assert not errors, errors
  assert min(ran) > 0, ran
  return out


def case_threads_compile_the_same():
  """Many threads ask for one program, and for many, at a time."""
  x = jnp.arange(32.0)
  out, errors = [None] * 8, []
  def work(k):
    try:
      values = []
      for i in range(10):
        f = jax.jit(lambda x, i=i: jax.lax.fori_loop(0, i + 1, lambda j, y: jnp.sin(y) + j, x))
        y = x
        with jax.default_device(jax.devices()[k]):
          values.append(np.asarray(f(y)))
      out[k] = values
    except BaseException as e:
      errors.append(e)
  threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  assert not errors, errors
  return out


def case_views_outlive():
  """A view of a result keeps its memory, whatever is deleted or donated."""
  x = jax.jit(lambda x: x + 1)(jnp.arange(1000.0))
  view = np.asarray(x)
  kept = view.copy()
  del x
  gc.collect()
  others = [jax.jit(lambda x: x * 3)(jnp.arange(1000.0)) for _ in range(5)]
  jax.block_until_ready(others)
  assert np.array_equal(view, kept)
  y = jnp.arange(1000.0) + 2
  view = np.asarray(y)
  kept = view.copy()
  z = jax.jit(lambda y: y * 5, donate_argnums=0)(y)
  assert np.array_equal(view, kept)
  w = jax.dlpack.from_dlpack(np.arange(64, dtype=np.float32))
  return z, w + 1

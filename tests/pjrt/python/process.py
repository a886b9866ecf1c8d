# SPDX-License-Identifier: Apache-2.0
"""Memory, threads, exchange with numpy and others, and what isn't valid."""
import gc
import resource
import threading

import jax
import jax.numpy as jnp
import numpy as np


def case_dlpack():
  x = jnp.arange(12.0).reshape(3, 4)
  there = np.from_dlpack(x)
  back = jnp.from_dlpack(np.arange(5, dtype=np.float32))
  again = jax.dlpack.from_dlpack(x)
  return there, back + 1, again


def case_views():
  x = jnp.arange(1000.0)
  v = np.asarray(x)
  assert not v.flags.writeable
  del x
  gc.collect()
  return v.copy()


def case_host_arrays():
  a = np.arange(24, dtype=np.float32).reshape(4, 6)
  out = [jnp.asarray(a.T), jnp.asarray(a[::2, ::-1]), jnp.asarray(np.asfortranarray(a))]
  kept = jnp.asarray(a)
  a[:] = 0
  return out, jax.jit(lambda v: v + 1)(np.array(3)), kept.shape


def case_threads():
  made = [None] * 6
  def work(k):
    for i in range(8):
      f = jax.jit(lambda x: (x * (k + 1) + i).sum())
      made[k] = np.asarray(f(jnp.arange(50.0)))
  threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
  for t in threads:
    t.start()
  for t in threads:
    t.join()
  return made


def resident():
  with open("/proc/self/statm") as f:
    return int(f.read().split()[1]) * resource.getpagesize()


def case_many_executables():
  """Executables are freed: memory grows by less than a few kilobytes for each."""
  client = jax.devices()[0].client
  lowered = jax.jit(lambda x: jnp.sin(x) * 2 + 1).lower(jnp.zeros(4))
  def round_of(n):
    for _ in range(n):
      compiled = lowered.compile()
      compiled(jnp.zeros(4))
      del compiled
    jax.clear_caches()
    gc.collect()
  del client
  round_of(300)
  before = resident()
  round_of(1500)
  grown = resident() - before
  assert grown < 48 << 20, f"1500 executables left {grown >> 20} MiB"


def case_many_arrays():
  f = jax.jit(lambda x: x * 2)
  def round_of(n):
    for _ in range(n):
      f(jnp.ones((256, 256)))
    gc.collect()
  round_of(100)
  before = resident()
  round_of(3000)
  grown = resident() - before
  assert grown < 32 << 20, f"3000 arrays left {grown >> 20} MiB"


def case_garbage():
  from jaxlib import xla_client
  client = jax.devices()[0].client
  module = str(jax.jit(lambda x: x + 1).lower(np.float32(1)).compiler_ir())
  assert "func" in module
  refused = 0
  for text in ("", "garbage", "module {", "ML\xefR\x06nothing", module[: len(module) // 2]):
    try:
      devices = xla_client.DeviceList(tuple(jax.local_devices()[:1]))
      client.compile_and_load(text.encode("latin1"), devices, xla_client.CompileOptions())
    except Exception:
      refused += 1
  assert refused == 5, refused


def case_shapes_that_do_not_fit():
  f = jax.jit(lambda x: x + 1).lower(jnp.zeros(3)).compile()
  try:
    f(jnp.zeros(4))
  except TypeError:
    return
  raise AssertionError("an argument of another shape was taken")


def case_memories():
  kinds = sorted(m.kind for m in jax.devices()[0].addressable_memories())
  assert "device" in kinds and "pinned_host" in kinds, kinds
  s = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
  return jax.device_put(np.arange(3.0, dtype=np.float32), s)

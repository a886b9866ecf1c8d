# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that programs call."""
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def shape_of(x):
  return jax.ShapeDtypeStruct(x.shape, x.dtype)


def case_pure():
  f = jax.jit(lambda x: jax.pure_callback(np.sin, shape_of(x), x, vmap_method="sequential") * 2)
  two = jax.jit(lambda x: jax.pure_callback(lambda v: (v.T.copy().T, np.int32(v.size)),
                                            (shape_of(x), jax.ShapeDtypeStruct((), np.int32)), x))
  x = np.arange(6, dtype=np.float32).reshape(2, 3)
  return f(x), two(x), f(jnp.zeros((0, 3))), jax.vmap(f)(x)


def case_dtypes():
  out = []
  for name in ("bool", "int8", "uint16", "int32", "float16", "bfloat16", "complex64"):
    x = jnp.arange(4).astype(name)
    y = jax.jit(lambda v: jax.pure_callback(lambda a: a[::-1], shape_of(v), v))(x)
    out.append(y.astype("complex64"))
  return out


def case_small_dtypes():
  seen = []
  out = []
  for name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
    x = jnp.arange(2 * 3 * 5).reshape(2, 3, 5).astype(name)
    def look(a):
      seen.append(a.astype(np.float32))
      return (np.flip(a, 2).astype(np.float32) - 3).astype(a.dtype)
    y = jax.jit(lambda v: jax.pure_callback(look, shape_of(v), v))(x)
    out.append((y.astype(np.float32), x.astype(np.float32)))
  jax.block_until_ready(out)
  return out, seen


def case_parts():
  s = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y")), P("x", "y"))
  x = jax.device_put(np.arange(16, dtype=np.float32).reshape(4, 4), s)
  seen = []
  def look(a, b):
    seen.append((a.tolist(), b.tolist()))
  @jax.jit
  def f(v):
    jax.debug.callback(look, v, v.sum(1), partitioned=True)
    return v + 1
  y = f(x)
  jax.effects_barrier()
  assert len(seen) == 8 and all(np.shape(a) == (2, 1) for a, _ in seen), seen
  return y, sorted(a for a, _ in seen)


def case_order_of_parts():
  m = Mesh(np.array(jax.devices()), ("x",))
  seen = []
  def note(what, i, v):
    seen.append((what, int(i), v.tolist()))
  def local(i, v):
    io_callback(lambda *a: note("first", *a), None, i[0], v, ordered=True)
    io_callback(lambda *a: note("second", *a), None, i[0], v + 1, ordered=True)
  @jax.jit
  def f(i, v):
    io_callback(lambda *a: note("before", *a), None, 0, v[:2], ordered=True)
    jax.shard_map(local, mesh=m, in_specs=P("x"), out_specs=None)(i, v)
    io_callback(lambda *a: note("after", *a), None, 0, v[:2], ordered=True)
    jax.shard_map(local, mesh=m, in_specs=P("x"), out_specs=None)(i + 8, v)
  f(np.arange(8), np.arange(16))
  jax.effects_barrier()
  assert len(seen) == 34, seen
  for i in range(8):  # each device has an order of its own
    got = [(what, k, v) for what, k, v in seen if k % 8 == i]
    want = [("before", 0, [0, 1])] if i == 0 else []
    for k in (i, i + 8):
      want += [("first", k, [2 * i, 2 * i + 1]), ("second", k, [2 * i + 1, 2 * i + 2])]
    if i == 0:
      want.insert(3, ("after", 0, [0, 1]))
    assert got == want, (got, want)
  return len(seen)


def case_order():
  seen = []
  @jax.jit
  def f(x):
    def body(i, v):
      io_callback(lambda a, b: seen.append((int(a), float(b))), None, i, v, ordered=True)
      return v + 1
    return jax.lax.fori_loop(0, 20, body, x)
  y = f(1.0)
  jax.effects_barrier()
  assert seen == [(i, i + 1.0) for i in range(20)], seen
  return y


def case_print():
  import io
  import contextlib
  text = io.StringIO()
  @jax.jit
  def f(x):
    jax.debug.print("sum {s} of {n}", s=x.sum(), n=x.size)
    return x * 2
  with contextlib.redirect_stdout(text):
    y = f(jnp.ones(3))
    jax.effects_barrier()
  assert text.getvalue() == "sum 3.0 of 3\n", text.getvalue()
  return y


def case_sharded():
  calls = []
  m = Mesh(np.array(jax.devices()), ("x",))
  def count(v):
    calls.append(v.shape)
    return v + 1
  x = jax.device_put(np.arange(16, dtype=np.float32), NamedSharding(m, P("x")))
  y = jax.jit(lambda v: jax.pure_callback(count, shape_of(v), v) * 2)(x)
  y.block_until_ready()
  assert calls == [(16,)], calls
  calls.clear()
  z = jax.jit(jax.shard_map(lambda v: jax.pure_callback(count, shape_of(v), v), mesh=m,
                            in_specs=P("x"), out_specs=P("x"), check_vma=False))(x)
  z.block_until_ready()
  assert sorted(calls) == [(2,)] * 8, calls
  return y, z


def case_error():
  def bad(v):
    raise ValueError("the function's own text")
  f = jax.jit(lambda x: jax.pure_callback(bad, shape_of(x), x))
  try:
    f(jnp.ones(3)).block_until_ready()
  except Exception as e:
    assert "the function's own text" in str(e), e
  else:
    raise AssertionError("no error arrived")
  return jax.jit(lambda x: x + 1)(jnp.ones(3))


def where_it_fails(call):
  """Whether the call raises what a function says, or waiting for its results does."""
  try:
    made = call()
  except Exception as e:
    assert "the function's own text" in str(e), e
    return "call"
  try:
    jax.block_until_ready(made)
    jax.effects_barrier()
  except Exception as e:
    assert "the function's own text" in str(e), e
    return "wait"
  return "nowhere"


def case_where_errors_are_raised():
  def bad(*v):
    raise ValueError("the function's own text")
  def plain(x):
    return jax.pure_callback(bad, shape_of(x), x)
  def loop(x):
    return jax.lax.fori_loop(0, 1000, lambda i, v: plain(v), x)
  def unused(x):
    io_callback(bad, None, x)
    return x + 1
  def look(x):
    jax.debug.callback(bad, x)
    return x + 1
  m = Mesh(np.array(jax.devices()), ("x",))
  x, large = jnp.ones(3), jnp.ones((200, 200))
  split = jax.device_put(np.ones(8, np.float32), NamedSharding(m, P("x")))
  mapped = jax.shard_map(plain, mesh=m, in_specs=P("x"), out_specs=P("x"), check_vma=False)
  jax.block_until_ready((x, large, split))
  made = [where_it_fails(lambda: jax.jit(f)(x)) for f in (plain, loop, unused, look)]
  made.append(where_it_fails(lambda: plain(x)))
  made.append(where_it_fails(lambda: jax.jit(lambda v: plain(v @ v))(large)))
  assert made == ["call"] * 6, made
  assert where_it_fails(lambda: jax.jit(mapped)(split)) == "wait"


def case_functions_of_many_devices_may_wait_for_their_caller():
  called = threading.Event()
  def waits(v):
    assert called.wait(60)
    return v
  m = Mesh(np.array(jax.devices()), ("x",))
  split = jax.device_put(np.ones(8, np.float32), NamedSharding(m, P("x")))
  mapped = jax.shard_map(lambda v: jax.pure_callback(waits, shape_of(v), v), mesh=m,
                         in_specs=P("x"), out_specs=P("x"), check_vma=False)
  y = jax.jit(mapped)(split)
  called.set()
  return y


def case_barriers_wait_for_all_functions():
  """Programs may end before those in front of them whose functions take longer."""
  m = Mesh(np.array(jax.devices()), ("x",))
  x = jax.device_put(np.ones(8, np.float32), NamedSharding(m, P("x")))
  seen = []
  def slow(v):
    time.sleep(0.3)
    seen.append("slow")
  def program(function):
    return jax.jit(lambda v: (io_callback(function, None, v), v + 1)[1])
  first, second = program(slow), program(lambda v: seen.append("quick"))
  first(x)
  second(x)
  jax.effects_barrier()
  assert sorted(seen) == ["quick", "slow"], seen
  y = first(x)
  jnp.sin(y)
  jax.effects_barrier()
  assert len(seen) == 3, seen


def case_buffers():
  from jax.experimental.buffer_callback import buffer_callback
  def add(ctx, out, a, b):
    try:
      ctx.stream
      raise AssertionError("a CPU has a stream")
    except jax.errors.JaxRuntimeError as e:
      assert "XLA FFI GPU context is not available" in str(e), e
    np.asarray(out)[...] = np.asarray(a) + np.asarray(b)
  def fails(ctx, out, a):
    raise ValueError("the function's own text")
  x, y = jnp.arange(12.0).reshape(3, 4), jnp.ones((3, 4))
  out = []
  for method in ("sequential", "expand_dims"):
    f = buffer_callback(add, jax.ShapeDtypeStruct((4,), np.float32), vmap_method=method)
    out.append(jax.vmap(f)(x, y))
  whole = buffer_callback(add, shape_of(x))
  out.append(jax.jit(lambda a, b: whole(a * 2, b) + 1)(x, y))
  bad = buffer_callback(fails, shape_of(x))
  assert where_it_fails(lambda: jax.jit(bad)(x)) == "call"
  assert where_it_fails(lambda: jax.lax.fori_loop(0, 3, lambda i, v: bad(v), x)) == "call"
  return out


def case_jax_inside():
  f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jnp.sin(v) + 1), shape_of(x), x))
  return f(jnp.arange(3.0))

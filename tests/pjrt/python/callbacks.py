# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that programs call."""
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


def case_jax_inside():
  f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jnp.sin(v) + 1), shape_of(x), x))
  return f(jnp.arange(3.0))

# SPDX-License-Identifier: Apache-2.0
"""jax.custom_partitioning: the transform along the last dim, whose other dims stay split."""
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


def mesh():
  return Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))


def keep_leading(sharding, rank):
  spec = tuple(sharding.spec) + (None,) * (rank - len(sharding.spec))
  return NamedSharding(sharding.mesh, P(*spec[:rank - 1], None))


def partition(mesh, arg_shapes, result_shape):
  del result_shape
  s = keep_leading(arg_shapes[0].sharding, len(arg_shapes[0].shape))
  return mesh, jnp.fft.fft, s, (s,)


@custom_partitioning
def transform(x):
  return jnp.fft.fft(x)


transform.def_partition(partition=partition, sharding_rule="... i -> ... i",
                        need_replication_factors=("i",))


def data(*shape):
  r = np.random.default_rng(0)
  return (r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(np.complex64)


def case_rows_stay():
  s = NamedSharding(mesh(), P(("x", "y"), None))
  x = jax.device_put(data(16, 32), s)
  f = jax.jit(transform, in_shardings=s, out_shardings=s)
  text = f.lower(x).compile().as_text()
  assert not re.search("all-gather|all_gather|dynamic-slice|dynamic_slice", text), text
  return f(x)


def case_last_dim_is_gathered():
  s = NamedSharding(mesh(), P("x", "y"))
  x = jax.device_put(data(4, 16), s)
  return jax.jit(transform, in_shardings=s, out_shardings=s)(x)


def case_one_dim():
  s = NamedSharding(mesh(), P("x"))
  return jax.jit(transform, in_shardings=s, out_shardings=s)(jax.device_put(data(32), s))


def case_in_a_loop():
  s = NamedSharding(mesh(), P("x", None))
  x = jax.device_put(data(4, 8), s)
  @jax.jit
  def f(v):
    return lax.fori_loop(0, 3, lambda i, c: transform(c) / 8, v)
  return f(x)


def case_collectives_inside():
  @custom_partitioning
  def total(x, y):
    return (x * y).sum(1), x.max(1)

  def split(mesh, arg_shapes, result_shape):
    del arg_shapes, result_shape
    s, rows = NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P("x"))
    def local(a, b):
      return lax.psum((a * b).sum(1), "y"), lax.pmax(a.max(1), "y")
    return mesh, local, (rows, rows), (s, s)

  total.def_partition(partition=split, sharding_rule="i j, i j -> i, i",
                      reduction_factors=("j",))
  s = NamedSharding(mesh(), P("x", "y"))
  a, b = (jax.device_put(data(4, 8).real.copy(), s) for _ in range(2))
  return jax.jit(total)(a, b)


def case_error():
  @custom_partitioning
  def f(x):
    return x
  def bad(mesh, arg_shapes, result_shape):
    raise ValueError("the partition function's own text")
  f.def_partition(partition=bad, sharding_rule="i -> i")
  s = NamedSharding(mesh(), P("x"))
  try:
    jax.jit(f)(jax.device_put(data(8), s))
  except Exception as e:
    assert "the partition function's own text" in str(e), e
  else:
    raise AssertionError("no error arrived")

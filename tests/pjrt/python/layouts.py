# SPDX-License-Identifier: Apache-2.0
"""Arrays of other layouts than row-major: jax.experimental.layout."""
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding


def one():
  return SingleDeviceSharding(jax.devices()[0])


def mesh():
  return Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))


def numbers(*shape, seed=0):
  return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def case_all_orders():
  x = numbers(2, 3, 4)
  out = []
  for order in itertools.permutations(range(3)):
    a = jax.device_put(x, Format(Layout(order), one()))
    assert a.format.layout.major_to_minor == order, a.format
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.from_dlpack(a), x)
    # numpy sees the memory as it is.
    strides = np.asarray(a).strides
    assert tuple(sorted(range(3), key=lambda d: -strides[d])) == order, (order, strides)
    there = jax.device_put(a, jax.devices()[1])
    assert there.format.layout.major_to_minor == order
    out.append((a, there, jax.jit(lambda v: (v * 2).sum(0))(a), a[1], a + 1, a.T))
  return out


def case_shardings():
  x = numbers(8, 16)
  out = []
  for spec in [P(), P("x"), P("x", "y"), P(None, ("x", "y"))]:
    s = NamedSharding(mesh(), spec)
    a = jax.device_put(x, Format(Layout((1, 0)), s))
    assert a.format.layout.major_to_minor == (1, 0) and a.sharding == s
    assert all(p.data.format.layout.major_to_minor == (1, 0) for p in a.addressable_shards)
    f = jax.jit(lambda v: (v @ v.T, v.T), out_shardings=(None, Format(Layout.AUTO)))
    out.append((a, f(a), jax.jit(lambda v: v * 3)(a), jax.jit(jnp.sum)(a)))
  return out


def case_open_layouts():
  x = numbers(4, 8, 2)
  f = jax.jit(lambda v: (jnp.sin(v.T) * 2, v + 1, jnp.where(v.T > 0, v.T, 0)),
              out_shardings=Format(Layout.AUTO)).lower(x).compile()
  if "tessera" in jax.devices()[0].client.platform_version:
    assert [o.layout.major_to_minor for o in f.output_formats] == [
        (2, 1, 0), (0, 1, 2), (0, 1, 2)], f.output_formats
  made = f(x)
  for a, said in zip(made, f.output_formats):
    assert a.format == said, (a.format, said)
  return made


def case_donation():
  x = numbers(64, 32)
  columns = Format(Layout((1, 0)), one())
  out = []
  for order in ((1, 0), (0, 1)):
    a = jax.device_put(x, columns)
    f = jax.jit(lambda v: v * 2, in_shardings=columns, out_shardings=Format(Layout(order), one()),
                donate_argnums=0)
    out.append(f(a))
    assert out[-1].format.layout.major_to_minor == order
    assert a.is_deleted() or order == (0, 1)
  return out


def case_transformations():
  x = numbers(6, 5)
  a = jax.device_put(x, Format(Layout((1, 0)), one()))
  g = jax.jit(jax.grad(lambda v: (jnp.tanh(v) @ v.T).sum()))
  return g(a), jax.jit(jax.vmap(jnp.cumsum))(a), jax.jit(lambda v: jax.lax.fori_loop(
      0, 3, lambda i, c: c + v[i], jnp.zeros(5)))(a)


def case_small_elements():
  x = jnp.arange(6).astype("int4").reshape(2, 3)
  a = jax.device_put(x, Format(Layout((1, 0)), one()))
  return a.astype("int32") * 2, jax.jit(lambda v: v.astype("int32"), in_shardings=x.format)(x)

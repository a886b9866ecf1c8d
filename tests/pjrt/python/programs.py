# SPDX-License-Identifier: Apache-2.0
"""Transformations and shardings."""
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

SPECS = [P(None, None), P("x", None), P("x", "y"), P(("x", "y"), None)]


def mesh():
  return Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))


def numbers(*shape, seed=0, dtype=np.float32):
  return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def case_jit():
  f = jax.jit(lambda x, y: (jnp.sin(x) @ y, {"s": x.sum(), "i": jnp.arange(5) * 3}))
  return f(numbers(4, 6), numbers(6, 3, seed=1))


def case_dtypes():
  out = []
  for name in ("int8", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float32",
               "complex64", "bool"):
    x = jnp.arange(-3, 9).astype(name)
    out.append(jax.jit(lambda v: jnp.where(v != 0, v, v[::-1]))(x).astype(
        "complex64" if name == "complex64" else "float32"))
  return out


def case_subnormals():
  """They are zeros in arithmetic and comparisons, and stay as they are in what only moves bits."""
  out = []
  for dtype in (np.float32, np.float16, jnp.bfloat16):
    info = jnp.finfo(dtype)
    least, tiny = info.smallest_subnormal, info.tiny
    x = jnp.asarray(np.array([least, -least, tiny, 1], dtype))
    half = jnp.full(4, 0.5, dtype)
    for made in (x * half, x + x, x / half, jnp.sign(x), x @ half, x.sum(), jnp.sqrt(x), jnp.exp(x - 1),
                 lax.fori_loop(0, 3, lambda _, v: v * half, x), -x, jnp.abs(x), x[::-1],
                 jnp.nextafter(jnp.zeros(4, dtype), half), jnp.where(half > 0, x, half)):
      made = np.asarray(made)
      out.append((made != 0, np.sign(made.astype(np.float32))))
    out.append((x > 0, x < half))
  return out


def case_small_integers():
  out = []
  for name in ("int4", "uint4", "int2", "uint2"):
    x = np.array([1, -2, -3, 4, -8, 7, 0, 15], np.int8).astype(name)
    wide = jax.jit(lambda v: (v.astype("int8"), v.astype("float32") * 2, v > 0))
    out.append((wide(x), wide(jnp.asarray(x)), np.asarray(jnp.asarray(x)).astype(np.int8)))
  return out


def case_grad_vmap_scan():
  def loss(w, x):
    def step(h, v):
      h = jnp.tanh(h @ w + v)
      return h, h.sum()
    h, s = lax.scan(step, jnp.zeros(4), x)
    return (h ** 2).sum() + s.sum()
  value, gradient = jax.jit(jax.value_and_grad(loss))(numbers(4, 4), numbers(7, 4, seed=1))
  batched = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(numbers(4, 4), numbers(3, 7, 4, seed=2))
  return value, gradient, batched, jax.jit(jax.hessian(lambda v: (v ** 3).sum()))(numbers(3))


def case_control():
  f = jax.jit(lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 1.1),
                                       (0, x)))
  g = jax.jit(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 2], x))
  return f(numbers(3)), [g(i, numbers(3)) for i in range(3)]


def case_four_shardings():
  m = mesh()
  out = []
  for spec in SPECS:
    x = jax.device_put(numbers(8, 16), NamedSharding(m, spec))
    w = jax.device_put(numbers(16, 8, seed=1), NamedSharding(m, P(None, "y")))
    y = jax.jit(lambda a, b: jax.nn.relu(a @ b).sum(0), out_shardings=NamedSharding(m, P("y")))(x, w)
    free = jax.jit(lambda a: jnp.sort(a, axis=0) + a.mean())(x)
    assert y.sharding.is_equivalent_to(NamedSharding(m, P("y")), 1), y.sharding
    assert len(free.addressable_shards) == 8
    out.append((y, free))
  return out


def case_shard_map():
  m = mesh()
  @jax.jit
  def f(x):
    def body(v):
      total = lax.psum(v, ("x", "y"))
      turned = lax.ppermute(v, "y", [(i, (i + 1) % 4) for i in range(4)])
      all_rows = lax.all_gather(v, "x", tiled=True)
      return total + turned, all_rows + lax.axis_index("y").astype(v.dtype)
    return jax.shard_map(body, mesh=m, in_specs=P("x", "y"), out_specs=(P("x", "y"), P(None, "y")),
                         check_vma=False)(x)
  return f(numbers(4, 8))


def case_constraint():
  m = mesh()
  @jax.jit
  def f(x):
    y = lax.with_sharding_constraint(x * 2, NamedSharding(m, P("y", "x")))
    return (y @ y.T).sum(1)
  return f(numbers(8, 8))


def case_results_are_split_evenly():
  """Eight devices, four elements: what is within a program is split unevenly, no result is."""
  m = Mesh(np.array(jax.devices()).reshape(4, 2), ("i", "j"))
  both = NamedSharding(m, P(("i", "j")))
  @jax.jit
  def f(v):
    v = jax.lax.with_sharding_constraint(v, both)
    return jax.lax.with_sharding_constraint(v.reshape(4, 2).sum(1), both), v * 2
  x = jnp.arange(8.0)
  small, large = f(x)
  assert small.sharding.shard_shape((4,)) == small.addressable_data(0).shape
  return small, large, f(x + 1)


def case_donated_and_kept():
  x = jnp.arange(8.0)
  f = jax.jit(lambda a, b: a + b, donate_argnums=0)
  try:
    f(x, x).block_until_ready()
  except RuntimeError:
    # The call was refused before anything was taken.
    return f(x, x + 1)
  raise AssertionError("one array was taken and read")


def case_donation():
  x = jnp.asarray(numbers(64, 64))
  y = jax.jit(lambda v: v + 1, donate_argnums=0)(x)
  assert x.is_deleted()
  try:
    np.asarray(x)
    raise AssertionError("a donated array could be read")
  except RuntimeError:
    pass
  return y


def case_random():
  k = jax.random.key(3)
  return (jax.random.normal(k, (5, 3)), jax.random.permutation(k, 20), jax.random.uniform(k, (7,)),
          jax.random.bits(jax.random.key(1, impl="rbg"), (4,)))


def case_linear_algebra():
  a = numbers(6, 6)
  s = a @ a.T + 6 * np.eye(6, dtype=np.float32)
  return (jnp.linalg.cholesky(s), jnp.linalg.solve(s, a), jnp.abs(jnp.linalg.qr(a)[1]),
          jnp.linalg.eigh(s)[0], jnp.linalg.svd(a, compute_uv=False), jnp.linalg.det(s),
          jnp.sort(jnp.linalg.eigvals(a).real), jax.scipy.linalg.expm(a * 0.1),
          jax.scipy.linalg.schur(s)[0].diagonal().sort())


def case_sparse():
  from jax.experimental import sparse
  a = np.where(numbers(5, 7) > 0.5, numbers(5, 7, seed=1), 0).astype(np.float32)
  m = sparse.CSR.fromdense(a)
  return jax.jit(lambda v: (m @ v, m @ v[:, 0]))(numbers(7, 3, seed=2))


def case_options():
  lowered = jax.jit(lambda x: x + 1).lower(numbers(3))
  for options, problem in (({"wrong_name": 1}, "No such compile option: 'wrong_name'"),
                           ({"xla_embed_ir_in_executable": "perhaps"}, "not a valid bool")):
    try:
      lowered.compile(compiler_options=options)
      raise AssertionError(f"{options} passed")
    except RuntimeError as e:
      assert problem in str(e), e
  return lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})(numbers(3))


def case_products_with_truth_values():
  x = jnp.array([np.inf, -np.inf, np.nan, -2, 3], np.float32)
  p = jnp.array([False, False, False, False, True])
  spread = jax.device_put(jnp.tile(x, 8), NamedSharding(mesh(), P(("x", "y"))))
  mapped = jax.shard_map(lambda v: (v > 0) * v, mesh=mesh(), in_specs=P(("x", "y")),
                         out_specs=P(("x", "y")))
  out = [x * p, p * x, x[0] * p[0], x * p[0], x * jnp.where(p, 1.0, 0.0), p * 1.0 * (x > 0),
         jax.jit(lambda v: v.astype(np.complex64) * (v > 0))(x),
         jax.jit(lambda v: v * (v > 0))(spread), jax.jit(mapped)(spread),
         jax.vmap(lambda v, q: v * q)(x, p)]
  return out, [np.signbit(v.real) & ~np.isnan(v) for v in out]


def case_calls_that_stay():
  from jax.experimental.scheduling_groups import xla_metadata_call
  scale = xla_metadata_call(lambda x, s: jnp.sin(x) * s, inlineable="false")
  f = jax.jit(jax.grad(lambda x: scale(scale(x, 2.0), 3.0).sum()))
  assert 'inlineable="false"' in f.lower(numbers(4)).compile().as_text()
  looped = jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, v: scale(v, 1.0 + i), x),
                   donate_argnums=0)
  split = jax.jit(lambda x: scale(x, 2.0) + x.sum(0),
                  in_shardings=NamedSharding(mesh(), P("x", "y")))
  return f(numbers(4)), looped(numbers(5)), split(numbers(8, 4)), jax.jit(scale)(numbers(3), 2.0)


def case_sink():
  def f(x):
    lax.dce_sink(x + 1, prevent_mlir_dce=True)
    return x * 2
  assert "dce_sink" in jax.jit(f).lower(numbers(4)).compile().as_text()
  return jax.jit(f)(numbers(4))


def case_fft_convolution():
  x = numbers(2, 8, 8)
  y = lax.conv_general_dilated(numbers(2, 3, 9, 9), numbers(4, 3, 3, 3, seed=1), (1, 1), "SAME")
  return jnp.fft.fft2(x), jnp.fft.irfft(jnp.fft.rfft(x)), y


def case_ahead_of_time():
  f = jax.jit(lambda x: jnp.tanh(x @ x).sum())
  compiled = f.lower(numbers(8, 8)).compile()
  assert len(compiled.as_text()) > 20
  assert compiled.memory_analysis() is not None
  return compiled(numbers(8, 8))


if importlib.util.find_spec("flatbuffers"):  # jax.export needs it
  def case_export():
    from jax import export
    e = export.export(jax.jit(lambda x: jnp.cos(x).sum()))(jax.ShapeDtypeStruct((4,), np.float32))
    return export.deserialize(e.serialize()).call(numbers(4))

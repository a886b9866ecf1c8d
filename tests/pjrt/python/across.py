# SPDX-License-Identifier: Apache-2.0
"""Programs of several processes, which run in one as well: results are the same in all of them."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback, multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

ME, COUNT = jax.process_index(), jax.process_count()
OWN = jax.local_device_count()
DEVICES = jax.device_count()
LINE = Mesh(np.array(jax.devices()), ("x",))
GRID = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


def whole(tree):
  """All of some arrays, in each process."""
  return multihost_utils.process_allgather(tree, tiled=True)


def placed(value, mesh, spec):
  """An array of which each process makes its own parts, of the whole that all know."""
  value = np.asarray(value)
  return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), lambda i: value[i])


def numbers(*shape):
  return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def case_devices():
  assert ME in range(COUNT) and OWN * COUNT == DEVICES == 8
  assert [d.id for d in jax.devices()] == list(range(DEVICES))
  assert [d.process_index for d in jax.devices()] == [k // OWN for k in range(DEVICES)]
  assert jax.local_devices() == jax.devices()[ME * OWN:(ME + 1) * OWN]
  assert [d.local_hardware_id for d in jax.local_devices()] == list(range(OWN))
  assert jax.devices()[-1].platform == "cpu"
  return jax.local_devices()[0].client.process_index() == ME


def case_local_data():
  rows = NamedSharding(LINE, P("x"))
  mine = np.arange(OWN * 2 * 3, dtype=np.float32).reshape(OWN * 2, 3) + OWN * 6 * ME
  x = jax.make_array_from_process_local_data(rows, mine)
  assert x.shape == (16, 3) and x.is_fully_addressable == (COUNT == 1)
  assert [s.device for s in x.addressable_shards] == jax.local_devices()
  by_parts = jax.make_array_from_single_device_arrays(
      (16, 3), rows, [jax.device_put(mine[2 * i:2 * i + 2], d)
                      for i, d in enumerate(jax.local_devices())])
  y = jax.jit(lambda a, b: (a.sum(0), a @ b.T, jnp.sort(a, axis=0)[::-1]))(x, by_parts)
  return whole((x, by_parts, *y))


def case_placed():
  x = numbers(8, 8)
  specs = [P(), P("data"), P("model", "data"), P(("data", "model")), P(None, "model")]
  arrays = [jax.device_put(x, NamedSharding(GRID, s)) for s in specs]
  moved = [jax.jit(lambda a: a + 1, out_shardings=NamedSharding(GRID, s))(a)
           for s, a in zip(specs[::-1], arrays)]
  again = [jax.device_put(a, NamedSharding(GRID, P("model"))) for a in moved]
  return whole((arrays, moved, again))


def case_multihost():
  multihost_utils.sync_global_devices("first")
  all_of_them = multihost_utils.process_allgather(np.arange(3) + 10 * ME)
  expected = np.stack([np.arange(3) + 10 * p for p in range(COUNT)])
  assert np.array_equal(np.reshape(all_of_them, (COUNT, 3)), expected), all_of_them
  one = multihost_utils.broadcast_one_to_all({"a": np.float32(ME), "b": np.arange(4) * (ME + 1)})
  assert one["a"] == 0 and np.array_equal(one["b"], np.arange(4)), one
  last = multihost_utils.broadcast_one_to_all(np.int32(ME), is_source=ME == COUNT - 1)
  assert last == COUNT - 1, last
  multihost_utils.assert_equal(np.arange(5), "they are")
  if COUNT > 1:
    try:
      multihost_utils.assert_equal(np.int32(ME), "they aren't")
      raise ValueError("nobody noticed")
    except AssertionError as e:
      assert "they aren't" in str(e)
  local = np.full((OWN, 2), ME, np.float32)
  there = multihost_utils.host_local_array_to_global_array(local, LINE, P("x"))
  back = multihost_utils.global_array_to_host_local_array(there * 2, LINE, P("x"))
  assert np.array_equal(back, local * 2)


def case_training():
  """A network whose batch is split over one axis, and whose layers over the other."""
  layers = [(P(None, "model"), P("model")), (P("model", None), P())]
  sizes = [16, 32, 4]
  params = [(placed(numbers(a, b) / np.sqrt(a), GRID, w), placed(np.zeros(b, np.float32), GRID, c))
            for a, b, (w, c) in zip(sizes, sizes[1:], layers)]
  momentum = jax.tree.map(jnp.zeros_like, params)
  x, y = placed(numbers(32, 16), GRID, P("data")), placed(numbers(32, 4), GRID, P("data"))

  def loss(params, x, y):
    (w0, b0), (w1, b1) = params
    return jnp.mean((jnp.tanh(x @ w0 + b0) @ w1 + b1 - y) ** 2)

  def step(params, momentum, x, y):
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum), momentum, value

  step = jax.jit(step, donate_argnums=(0, 1))
  values = []
  for _ in range(10):
    before = params[0][0]
    params, momentum, value = step(params, momentum, x, y)
    assert before.is_deleted()
    values.append(np.float32(value))
  assert values[-1] < values[0]
  return values, whole(params)


def case_shard_map():
  x = placed(numbers(16, 8), LINE, P("x"))

  @jax.jit
  @jax.shard_map(mesh=LINE, in_specs=P("x"), out_specs=P("x"))
  def f(a):
    i = jax.lax.axis_index("x")
    turned = jax.lax.ppermute(a, "x", [(k, (k + 3) % DEVICES) for k in range(DEVICES)])
    parts = jax.lax.all_to_all(a, "x", split_axis=1, concat_axis=0, tiled=True)
    return (jax.lax.psum(a, "x") + i, jax.lax.pmax(a, "x") * a, turned, parts,
            jax.lax.all_gather(a, "x", tiled=True).sum(0, keepdims=True),
            jax.lax.psum_scatter(a.T, "x", tiled=True))

  @jax.jit
  @jax.shard_map(mesh=GRID, in_specs=P("data", "model"), out_specs=P("data", "model"))
  def g(a):
    return jax.lax.psum(a, "data") - jax.lax.pmean(a, "model")

  return whole((f(x), g(placed(numbers(16, 8), GRID, P("data", "model")))))


def case_loops():
  """How often a loop runs is found by all, and depends on what each has."""
  x = placed(np.arange(8, dtype=np.float32), LINE, P("x"))

  @jax.jit
  def halved(a):
    return jax.lax.while_loop(lambda s: jnp.sum(s[0]) > 1, lambda s: (s[0] / 2, s[1] + 1), (a, 0))

  @jax.jit
  def scanned(a):
    return jax.lax.scan(lambda c, _: (jnp.roll(c, 1) + c.mean(), c[0]), a, length=5)

  return whole((halved(x), scanned(x)))


def case_on_local_devices():
  """Each process runs programs of its own, of which the others don't know."""
  for k in range(ME + 2):
    y = jax.jit(lambda a: jnp.cumsum(a * k))(jnp.arange(3 + ME))
    assert np.array_equal(y, np.cumsum(np.arange(3 + ME) * k))
  mine = Mesh(np.array(jax.local_devices()), ("x",))
  z = jax.jit(jnp.sum)(jax.device_put(np.arange(8.0), NamedSharding(mine, P("x"))))
  assert z == 28 and z.is_fully_addressable
  return whole(placed(np.arange(8.0), LINE, P("x")) + float(z))


def case_of_some_processes():
  """Programs on devices of some processes only, called by these alone."""
  total = jax.jit(jnp.sum)
  x = placed(numbers(16), LINE, P("x"))
  out = [total(x)]
  some = Mesh(np.array(jax.devices()[:DEVICES // 2]), ("x",))
  has_some = any(d.process_index == ME for d in some.devices.flat)
  if has_some:
    y = placed(numbers(8), some, P("x"))
    for k in range(3):
      jax.jit(lambda a: jnp.sum(a * k))(y).block_until_ready()
  out.append(total(x))
  # Called by all: the others get nothing of it.
  z = jax.jit(lambda a: a.sum(0) + 1)(jax.device_put(numbers(4, 4), NamedSharding(some, P("x"))))
  z.block_until_ready()
  assert bool(z.addressable_shards) == has_some
  assert not has_some or np.allclose(z.addressable_data(0), numbers(4, 4).sum(0) + 1, atol=1e-5)
  # In one process a program is made anew.
  if ME == COUNT - 1:
    jax.clear_caches()
  out += [total(x), jax.jit(lambda a: a * 3)(x).sum()]
  return whole(out)


def case_callbacks():
  x = placed(np.arange(16, dtype=np.float32), LINE, P("x"))
  calls = []

  @jax.jit
  def f(a):
    b = jax.pure_callback(lambda v: np.sin(v), jax.ShapeDtypeStruct(a.shape, a.dtype), a)
    io_callback(lambda v: calls.append(float(v)), None, a.sum(), ordered=True)
    return a + b

  y = whole(f(x))
  jax.effects_barrier()
  total = multihost_utils.process_allgather(np.int32(len(calls)))
  assert np.sum(total) == 1 and all(c == 120 for c in calls), (total, calls)
  return y


def case_copies():
  x = placed(np.arange(8, dtype=np.float32), LINE, P("x"))
  y = jax.jit(lambda a: a)(x)
  at = [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]
  assert not set(at) & {s.data.unsafe_buffer_pointer() for s in y.addressable_shards}
  x.delete()
  return whole(y)


def case_errors_of_all():
  """After an error that all processes meet alike they go on."""
  x = placed(np.arange(8, dtype=np.float32), LINE, P("x"))
  donated = jax.jit(lambda a: a * 2, donate_argnums=0)(x)
  try:
    jax.block_until_ready(jax.jit(jnp.sum)(x))
    raise AssertionError("a donated array was used")
  except (RuntimeError, ValueError) as e:
    assert "deleted" in str(e), e
  return whole(donated)

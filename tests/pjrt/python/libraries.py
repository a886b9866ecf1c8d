# SPDX-License-Identifier: Apache-2.0
"""Programs of libraries as their users write them. What isn't installed is left out, and named."""
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from support import under_shardings


def has(*names):
  missing = [n for n in names if not importlib.util.find_spec(n)]
  if missing:
    print(f"left out: there is no {', '.join(missing)}", flush=True)
  return not missing


def split(*axes):
  return NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y")), P(axes))


def numbers(*shape):
  return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


if has("flax", "optax"):
  def case_flax_nnx():
    import optax
    from flax import nnx

    class Block(nnx.Module):
      def __init__(self, width, rngs):
        self.attention = nnx.MultiHeadAttention(2, width, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

      def __call__(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.dropout(self.down(nnx.gelu(self.up(x))))

    def run(s):
      x = jax.device_put(numbers(16, 6, 8), s)
      model = Block(8, nnx.Rngs(0))
      optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)

      @nnx.jit
      def step(model, optimizer, x):
        value, gradient = nnx.value_and_grad(lambda m: jnp.mean((m(x) - 1) ** 2))(model)
        optimizer.update(model, gradient)
        return value

      values = [step(model, optimizer, x) for _ in range(4)]
      return (values, jax.tree.leaves(nnx.state(model, nnx.Param)))
    return under_shardings(run)

  def case_flax_convolutions():
    """Batch statistics, dropout, pooling; the state is donated."""
    import flax.linen as nn
    import optax
    from flax.training import train_state

    class Net(nn.Module):
      @nn.compact
      def __call__(self, x, train):
        # Without a bias, whose gradient would be what rounding leaves: statistics take it away.
        x = nn.Conv(8, (3, 3), strides=(2, 2), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(x))
        x = nn.max_pool(nn.Conv(8, (3, 3), padding="VALID")(x), (2, 2), (1, 1))
        x = nn.Dropout(0.2, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(3)(nn.GroupNorm(4)(x))

    class State(train_state.TrainState):
      stats: object

    def run(s):
      x = jax.device_put(numbers(16, 12, 12, 3), s)
      made = Net().init(jax.random.key(0), x, False)
      state = State.create(apply_fn=Net().apply, params=made["params"], stats=made["batch_stats"],
                           tx=optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(1e-2)))

      def step(state, x, key):
        def loss(p):
          y, changed = state.apply_fn({"params": p, "batch_stats": state.stats}, x, True,
                                      mutable=["batch_stats"], rngs={"dropout": key})
          return optax.softmax_cross_entropy_with_integer_labels(y, jnp.arange(16) % 3).mean(), changed
        (value, changed), g = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=g, stats=changed["batch_stats"]), value
      step = jax.jit(step, donate_argnums=0)
      values = []
      for i in range(3):
        state, value = step(state, x, jax.random.key(i))
        values.append(value)
      return (values, state.params, state.stats)
    return under_shardings(run)

  def case_flax_recurrent():
    import flax.linen as nn
    def run(s):
      x = jax.device_put(numbers(16, 7, 5), s)
      model = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(6)), nn.RNN(nn.GRUCell(6)))
      params = model.init(jax.random.key(2), x)
      lengths = jnp.arange(16) % 7 + 1
      return jax.jit(jax.value_and_grad(
          lambda p: jnp.sum(model.apply(p, x, seq_lengths=lengths) ** 2)))(params)
    return under_shardings(run)


if has("optax"):
  def case_optax_methods():
    """Many optimizers, a few steps each, of parameters split over all devices."""
    import optax
    s = split("x", "y")
    start = {"w": numbers(8, 8), "b": numbers(8)}
    x, y = jax.device_put(numbers(16, 8), s), jax.device_put(numbers(16, 8) * 2, s)
    def loss(p):
      return jnp.mean((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)
    methods = {
        "adafactor": optax.adafactor(1e-2, min_dim_size_to_factor=4), "adagrad": optax.adagrad(1e-2),
        "lion": optax.lion(1e-3), "rmsprop": optax.rmsprop(1e-3, centered=True),
        "muon": optax.contrib.muon(1e-2), "noisy": optax.noisy_sgd(1e-2, key=0),
        "schedule": optax.adamw(optax.warmup_cosine_decay_schedule(0, 1e-2, 2, 6)),
        "every": optax.MultiSteps(optax.sgd(1e-2), 2), "radam": optax.radam(1e-2)}
    out = {}
    for name, method in methods.items():
      p = jax.device_put(start, {"w": s, "b": s})
      state = method.init(p)
      @jax.jit
      def step(p, state):
        updates, state = method.update(jax.grad(loss)(p), state, p)
        return optax.apply_updates(p, updates), state
      for _ in range(4):
        p, state = step(p, state)
      out[name] = p
    return out

  def case_optax_lbfgs():
    import optax
    s = split("x")
    x, y = jax.device_put(numbers(16, 8), s), jax.device_put(numbers(16, 1)[:, 0], s)
    loss = lambda w: jnp.mean((x @ w - y) ** 2)
    method = optax.lbfgs()
    w = jnp.zeros(8)
    state = method.init(w)
    value_and_grad = optax.value_and_grad_from_state(loss)
    @jax.jit
    def step(w, state):
      value, g = value_and_grad(w, state=state)
      updates, state = method.update(g, state, w, value=value, grad=g, value_fn=loss)
      return optax.apply_updates(w, updates), state
    for _ in range(12):
      w, state = step(w, state)
    return w  # at the minimum


if has("equinox", "optax"):
  def case_equinox_layers():
    import equinox as eqx
    import optax

    class Model(eqx.Module):
      conv: eqx.nn.Conv1d
      cell: eqx.nn.GRUCell
      attention: eqx.nn.MultiheadAttention
      head: eqx.nn.Linear

      def __init__(self, key):
        a, b, c, d = jax.random.split(key, 4)
        self.conv = eqx.nn.Conv1d(3, 8, 3, padding=1, key=a)
        self.cell = eqx.nn.GRUCell(8, 8, key=b)
        self.attention = eqx.nn.MultiheadAttention(2, 8, key=c)
        self.head = eqx.nn.Linear(8, 1, key=d)

      def __call__(self, x):
        x = jax.nn.silu(self.conv(x)).T
        _, x = jax.lax.scan(lambda h, v: (self.cell(v, h),) * 2, jnp.zeros(8), x)
        return self.head(self.attention(x, x, x).mean(0))[0]

    def run(s):
      x = jax.device_put(numbers(16, 3, 10), s)
      model = Model(jax.random.key(0))
      method = optax.adam(1e-2)
      state = method.init(eqx.filter(model, eqx.is_inexact_array))

      @eqx.filter_jit(donate="all-except-first")
      def step(x, model, state):
        value, g = eqx.filter_value_and_grad(lambda m: jnp.mean((jax.vmap(m)(x) - 1) ** 2))(model)
        updates, state = method.update(g, state)
        return eqx.apply_updates(model, updates), state, value

      values = []
      for _ in range(4):
        model, state, value = step(x, model, state)
        values.append(value)
      return (values, jax.tree.leaves(eqx.filter(model, eqx.is_array)))
    return under_shardings(run)

  def case_equinox_errors():
    """Errors at run time, of any element, are raised where the value is asked for."""
    import equinox as eqx

    @eqx.filter_jit
    def f(x):
      return eqx.error_if(jnp.sqrt(x), x < 0, "negative") + 1
    good = f(numbers(4) ** 2)
    try:
      jax.block_until_ready(f(-jnp.ones(4)))
      raised = ""
    except Exception as e:  # its type is the library's
      raised = str(e)
    assert "negative" in raised, raised
    return good

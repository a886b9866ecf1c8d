# SPDX-License-Identifier: Apache-2.0
"""Steps of training by libraries, on arrays sharded in four ways. What isn't installed is left out."""
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np

from support import under_shardings


def has(*names):
  return all(importlib.util.find_spec(n) for n in names)


def batch():
  r = np.random.default_rng(0)
  return r.standard_normal((32, 8)).astype(np.float32), r.integers(0, 4, 32)


if has("flax", "optax"):
  def case_flax():
    import flax.linen as nn
    import optax

    class Model(nn.Module):
      @nn.compact
      def __call__(self, x):
        x = nn.LayerNorm()(nn.relu(nn.Dense(16)(x)))
        return nn.Dense(4)(x)

    model, optimizer = Model(), optax.adamw(1e-2)
    def run(s):
      x, y = (jax.device_put(a, s) for a in batch())
      params = model.init(jax.random.key(0), x)
      state = optimizer.init(params)

      @jax.jit
      def step(params, state, x, y):
        def loss(p):
          return optax.softmax_cross_entropy_with_integer_labels(model.apply(p, x), y).mean()
        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value

      for _ in range(5):
        params, state, value = step(params, state, x, y)
      return (value, params)
    return under_shardings(run)


if has("equinox", "optax"):
  def case_equinox():
    import equinox as eqx
    import optax
    optimizer = optax.sgd(0.1, momentum=0.9)
    def run(s):
      x, y = (jax.device_put(a, s) for a in batch())
      model = eqx.nn.MLP(8, 4, 16, 2, key=jax.random.key(1))
      state = optimizer.init(eqx.filter(model, eqx.is_array))

      @eqx.filter_jit
      def step(model, state, x, y):
        def loss(m):
          return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(m)(x), y).mean()
        value, gradient = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

      for _ in range(5):
        model, state, value = step(model, state, x, y)
      return (value, jax.tree.leaves(eqx.filter(model, eqx.is_array)))
    return under_shardings(run)


def case_plain():
  def run(s):
    x, y = (jax.device_put(a, s) for a in batch())
    w = jnp.zeros((8, 4))
    @jax.jit
    def step(w, x, y):
      def loss(w):
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()
      value, g = jax.value_and_grad(loss)(w)
      return w - 0.5 * g, value
    for _ in range(10):
      w, value = step(w, x, y)
    return (w, value)
  return under_shardings(run)

# SPDX-License-Identifier: Apache-2.0
"""Programs of numpyro and diffrax as their users write them. What isn't installed is left out, and named."""
import jax
import jax.numpy as jnp
import numpy as np

from libraries import has, numbers
from support import under_shardings


if has("numpyro"):
  def case_numpyro():
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x, y):
      w = numpyro.sample("w", dist.Normal(jnp.zeros(4), 1.0).to_event(1))
      noise = numpyro.sample("noise", dist.HalfNormal(1.0))
      with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w, noise), obs=y)

    truth = np.array([1, -2, 0.5, 3], np.float32)
    rows = numbers(64, 4)
    def run(s):
      x = jax.device_put(rows, s)
      y = jax.device_put(rows @ truth + 0.1 * numbers(64), s)
      svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.02), Trace_ELBO())
      state = svi.init(jax.random.key(0), x, y)
      step = jax.jit(svi.update)
      losses = []
      for _ in range(5):
        state, loss = step(state, x, y)
        losses.append(loss)
      return (losses, svi.get_params(state))
    out = under_shardings(run)
    chain = MCMC(NUTS(model), num_warmup=100, num_samples=200, progress_bar=False)
    chain.run(jax.random.key(1), jnp.asarray(rows), jnp.asarray(rows @ truth))
    # Trajectories part by rounding: the mean of the samples is what they agree in.
    assert np.allclose(chain.get_samples()["w"].mean(0), truth, atol=0.05)
    return out


if has("diffrax", "equinox", "optax"):
  def case_diffrax():
    import diffrax
    import equinox as eqx
    import optax
    def run(s):
      x = jax.device_put(numbers(16, 2), s)
      field = eqx.nn.MLP(2, 2, 8, 1, key=jax.random.key(0))
      method = optax.sgd(0.05)
      state = method.init(eqx.filter(field, eqx.is_array))

      @eqx.filter_jit
      def step(field, state, x):
        def loss(field):
          def solve(start):
            return diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, y, f: f(y)), diffrax.Tsit5(), 0.0, 1.0, 0.1, start, field,
                saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 4)),
                stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-4)).ys
          return jnp.mean((jax.vmap(solve)(x) - 1) ** 2)
        value, g = eqx.filter_value_and_grad(loss)(field)
        updates, state = method.update(g, state)
        return eqx.apply_updates(field, updates), state, value

      values = []
      for _ in range(3):
        field, state, value = step(field, state, x)
        values.append(value)
      return (values, jax.tree.leaves(eqx.filter(field, eqx.is_array)))
    return under_shardings(run)

  def case_diffrax_noise():
    import diffrax
    brownian = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(3,), key=jax.random.key(0))
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, a: -y),
                              diffrax.ControlTerm(lambda t, y, a: 0.1 * jnp.eye(3), brownian))
    ys = diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.05, jnp.ones(3),
                             saveat=diffrax.SaveAt(steps=True), max_steps=32).ys
    return jnp.isfinite(ys), jnp.where(jnp.isfinite(ys), ys, 0)  # steps not taken are infinite

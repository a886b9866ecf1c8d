# SPDX-License-Identifier: Apache-2.0
"""Writes the programs that main.cc and docs/from-jax.md run: python3 export.py. Needs jax.

step.mlir          one step of gradient descent, as StableHLO text
step_exported.mlir the same through jax.export, which promises to be readable for years
step.hlo           the same as HLO text
step_sharded.mlir  the same with shardings over 8 devices
"""

import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.export
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

HERE = pathlib.Path(__file__).resolve().parent


def step(w, b, x, y):
    def loss(w, b):
        return jnp.mean((jnp.tanh(x @ w + b) - y) ** 2)

    value, (dw, db) = jax.value_and_grad(loss, (0, 1))(w, b)
    return w - 0.5 * dw, b - 0.5 * db, value


f32 = jnp.float32
shapes = [jax.ShapeDtypeStruct(s, f32) for s in [(16, 4), (4,), (64, 16), (64, 4)]]

lowered = jax.jit(step).lower(*shapes)
(HERE / "step.mlir").write_text(lowered.as_text())
(HERE / "step.hlo").write_text(
    lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
(HERE / "step_exported.mlir").write_text(
    str(jax.export.export(jax.jit(step))(*shapes).mlir_module()).replace(f"{HERE}/", ""))

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
at = lambda *spec: NamedSharding(mesh, P(*spec))
weights = (at(None, "model"), at("model"))
sharded = jax.jit(step, in_shardings=(*weights, at("data"), at("data", "model")),
                  out_shardings=(*weights, at()))
(HERE / "step_sharded.mlir").write_text(sharded.lower(*shapes).as_text())

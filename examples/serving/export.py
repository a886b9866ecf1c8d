# SPDX-License-Identifier: Apache-2.0
"""Writes what main.cc serves: python3 export.py. Needs jax and safetensors.

model.mlir         a network that reads handwritten digits, by jax.export: MLIR bytecode, with parameters as arguments
model.safetensors  its parameters, trained on ../mlp_training/digits.csv
"""

import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
BATCH, PIXELS, HIDDEN, CLASSES = 16, 64, 64, 10


def probabilities(parameters, pixels):
    hidden = jax.nn.relu(pixels @ parameters["hidden.weight"] + parameters["hidden.bias"])
    return jax.nn.softmax(hidden @ parameters["out.weight"] + parameters["out.bias"])


def loss(parameters, pixels, labels):
    return -jnp.log(probabilities(parameters, pixels)[jnp.arange(len(labels)), labels] + 1e-9).mean()


rows = np.loadtxt(HERE.parent / "mlp_training" / "digits.csv", delimiter=",", dtype=np.float32)
rows = rows[np.random.default_rng(0).permutation(len(rows))]
pixels, labels = rows[:, :PIXELS] / 16, rows[:, PIXELS].astype(np.int32)
train = slice(0, 1500)

keys = jax.random.split(jax.random.key(0))
parameters = {
    "hidden.weight": jax.random.normal(keys[0], (PIXELS, HIDDEN)) * (2 / PIXELS) ** 0.5,
    "hidden.bias": jnp.zeros(HIDDEN),
    "out.weight": jax.random.normal(keys[1], (HIDDEN, CLASSES)) * (2 / HIDDEN) ** 0.5,
    "out.bias": jnp.zeros(CLASSES),
}
step = jax.jit(lambda p: jax.tree.map(lambda a, g: a - 0.5 * g, p, jax.grad(loss)(p, pixels[train], labels[train])))
for _ in range(1500):
    parameters = step(parameters)
guess = probabilities(parameters, pixels[1500:]).argmax(-1)
print("accuracy", float((guess == labels[1500:]).mean()))

save_file({name: np.asarray(a) for name, a in parameters.items()}, HERE / "model.safetensors")
shapes = {name: jax.ShapeDtypeStruct(a.shape, a.dtype) for name, a in parameters.items()}
exported = jax.export.export(jax.jit(probabilities))(shapes, jax.ShapeDtypeStruct((BATCH, PIXELS), jnp.float32))
(HERE / "model.mlir").write_bytes(exported.mlir_module_serialized)

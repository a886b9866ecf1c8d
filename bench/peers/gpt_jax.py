# SPDX-License-Identifier: Apache-2.0
"""Trains examples/gpt in Tessera and in JAX, from the same weights, and compares losses, speed and communication.

    python bench/peers/gpt_jax.py PATH/TO/example_gpt [--steps 30] [--mesh data=2,model=4] [--seed 0]

Each side runs in a process of its own. The example writes its first weights as .npy files, which JAX reads; batches are equal
because both draw them from equal keys. Bytes are counted in the text of one device's program by tests/peers/hlo_comm.py.
Needs jax, on CPU with 8 virtual devices. Exit status 1 if losses differ by more than 1e-3 within the first ten steps (later,
rounding errors grow with training).
"""

import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "peers"))

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 4, 4, 16


def text_of_example():
    """The text of examples/gpt/text.h, as numbers in the order of its alphabet."""
    source = (ROOT / "examples" / "gpt" / "text.h").read_text()
    text = re.search(r'R"\((.*?)\)"', source, re.S).group(1)
    alphabet = sorted(set(text))
    return [alphabet.index(c) for c in text]


def in_jax(folder, steps, mesh_text, seed):
    """Trains from the weights in `folder`; prints losses, seconds of a step and bytes as JSON."""
    import hlo_comm
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

    sizes = dict((a, int(n)) for a, n in (x.split("=") for x in mesh_text.split(",")))
    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
    specs = {"token": P("model"), "position": P(),
             "layers": {"norm1": P(), "qkv": P(None, None, None, "model"), "out": P(None, "model"), "norm2": P(),
                        "up": P(None, None, "model"), "down": P(None, "model")}, "norm": P()}
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), specs)

    def read(part):
        names = jax.tree_util.tree_map_with_path(
            lambda path, _: ".".join(k.key for k in path), specs, is_leaf=lambda x: isinstance(x, P))
        return jax.tree.map(lambda n, s: jax.device_put(np.load(f"{folder}/{part}.{n}.npy"), s), names, shardings)

    def normalized(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-5) * scale

    def layer(x, w):
        q, k, v = jnp.einsum("btd,dchk->cbhtk", normalized(x, w["norm1"]), w["qkv"])
        scores = jnp.einsum("bhtk,bhsk->bhts", q, k) / float(np.sqrt(WIDTH // HEADS))
        past = jnp.tri(x.shape[1], dtype=bool)
        seen = jnp.einsum("bhts,bhsk->bthk", jax.nn.softmax(jnp.where(past, scores, -1e9)), v)
        y = x + jnp.einsum("bthk,hkd->btd", seen, w["out"])
        return y + jax.nn.gelu(normalized(y, w["norm2"]) @ w["up"]) @ w["down"]

    def loss_of(p, batch):
        seen, following = batch[:, :-1], batch[:, 1:]
        x = p["token"][seen] + p["position"][:seen.shape[1]]
        step = jax.checkpoint(layer)
        x, _ = jax.lax.scan(lambda c, w: (step(c, w), None), x, p["layers"])
        scores = jax.nn.log_softmax(normalized(x, p["norm"]) @ p["token"].T)
        return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(following, p["token"].shape[0]), -1))

    def rate(step):
        fall = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step - 10, 990) / 990))
        return jnp.where(step < 10, 3e-3 * jnp.clip(step / 10, 0, 1), 3e-3 * (0.9 * fall + 0.1))

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2, 3))
    def train_step(p, mean, square, step, batch):
        loss, g = jax.value_and_grad(loss_of)(p, batch)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: jnp.where(norm < 1, x, x / norm), g)
        mean = jax.tree.map(lambda m, x: 0.9 * m + 0.1 * x, mean, g)
        square = jax.tree.map(lambda s, x: 0.999 * s + 0.001 * jnp.square(x), square, g)
        n = step + 1

        def moved(x, m, s):
            d = m / (1 - 0.9 ** n) / (jnp.sqrt(s / (1 - 0.999 ** n)) + 1e-8)
            return x - rate(step) * (d + 0.01 * x if x.ndim > 2 else d)

        return jax.tree.map(moved, p, mean, square), mean, square, n, loss

    text, key = jnp.array(text_of_example(), jnp.int32), jax.random.key(seed)

    @jax.jit
    def draw(key):
        starts = jax.random.randint(key, (BATCH,), 0, text.shape[0] - CONTEXT)
        return jax.vmap(lambda at: jax.lax.dynamic_slice_in_dim(text, at, CONTEXT + 1))(starts)

    state = (read("params"), read("optimizer.mean"), read("optimizer.square"),
             jax.device_put(jnp.int32(0), NamedSharding(mesh, P())))
    batches = NamedSharding(mesh, P("data"))
    start = time.perf_counter()
    compiled = train_step.lower(*state, jax.device_put(draw(key), batches)).compile()
    compile_seconds = time.perf_counter() - start
    losses, seconds, processor_seconds = [], 0.0, 0.0
    for i in range(steps):
        batch = jax.device_put(draw(jax.random.fold_in(key, i)), batches)
        start, processor = time.perf_counter(), time.process_time()
        *state, loss = compiled(*state, batch)
        losses.append(float(loss))
        if i:
            seconds += time.perf_counter() - start
            processor_seconds += time.process_time() - processor
    print(json.dumps({"losses": losses, "speed": [(steps - 1) / seconds, processor_seconds * 1e3 / (steps - 1)],
                      "compile_seconds": compile_seconds, "communication": hlo_comm.comm_stats(compiled.as_text())}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("example")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--mesh", default="data=2,model=4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jax", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.jax:
        return in_jax(args.jax, args.steps, args.mesh, args.seed)

    import hlo_comm

    with tempfile.TemporaryDirectory() as folder:
        start, program = f"{folder}/start", f"{folder}/step.hlo"
        common = [args.example, "--mesh", args.mesh, "--seed", str(args.seed)]
        subprocess.run([*common, "--steps", "0", "--checkpoint", start], check=True)
        said = subprocess.run([*common, "--steps", str(args.steps), "--log", "1", "--resume", start, "--program", program],
                              capture_output=True, text=True, check=True).stdout
        ours = {"losses": [float(x) for x in re.findall(r"^step +\d+  loss (\S+)$", said, re.M)],
                "speed": [float(x) for x in re.search(r"^(\S+) steps/s, (\S+) ms of proc", said, re.M).groups()],
                "communication": hlo_comm.comm_stats(pathlib.Path(program).read_text())}
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
        ran = subprocess.run([sys.executable, __file__, args.example, "--steps", str(args.steps), "--mesh", args.mesh, "--seed",
                              str(args.seed), "--jax", start], capture_output=True, text=True, env=environment)
        if ran.returncode:
            sys.exit(ran.stderr)
        theirs = json.loads(ran.stdout)

    print(f"{'step':>6} {'Tessera':>10} {'JAX':>10} {'apart':>9}")
    apart = [abs(a - b) for a, b in zip(ours["losses"], theirs["losses"])]
    for i in sorted({0, 1, 2, 5, 10, 20, args.steps - 1} & set(range(args.steps))):
        print(f"{i:6} {ours['losses'][i]:10.6f} {theirs['losses'][i]:10.6f} {apart[i]:9.1e}")
    for name, side in (("Tessera", ours), ("JAX", theirs)):
        print(f"{name}: {side['speed'][0]:.1f} steps/s, {side['speed'][1]:.1f} ms of processor time per step; "
              f"one device receives {side['communication']['total_bytes'] / 1e6:.2f} MB per step")
        print(f"    {json.dumps(side['communication'])}")
    if len(ours["losses"]) != args.steps or not max(apart[:10]) <= 1e-3:
        sys.exit("the losses differ")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Shardings in types as JAX infers them: one line per case, for tests/fixtures/explicit_types.txt.

    python explicit_types.py SEED COUNT > explicit_types.txt        (pip install jax, 0.10.2)

A line is: op;types of the operands;arguments of the op;type of the result, or "error".
"""
import os
import random
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Explicit,) * 3)


def random_spec(rng, shape, axes=("x", "y", "z")):
    """Axes that split dims evenly, each at most once."""
    left = list(axes)
    rng.shuffle(left)
    entries = []
    for size in shape:
        taken = []
        while left and rng.random() < 0.45 and size % 2 == 0:
            taken.append(left.pop())
            size //= 2
        entries.append(tuple(taken))
    return entries


def text(shape, entries):
    dims = []
    for d, size in enumerate(shape):
        axes = entries[d] if d < len(entries) else ()
        axes = () if axes is None else ((axes,) if isinstance(axes, str) else tuple(axes))
        dims.append(str(size) + ("@" + "+".join(axes) if axes else ""))
    return ",".join(dims)


def struct(shape, entries):
    spec = P(*[e if len(e) > 1 else (e[0] if e else None) for e in entries])
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))


def cases(rng):
    dims = lambda n: tuple(rng.choice([1, 2, 4, 8, 6]) for _ in range(n))
    listed = lambda v: " ".join(str(i) for i in v)
    kind = rng.choice(["reshape"] * 4 + ["add", "select", "dot", "dot", "dot", "transpose", "sum", "reshape", "concatenate", "slice",
                       "pad", "broadcast", "sort", "cumsum", "reverse", "dynamic_slice", "squeeze",
                       "argmax", "update"])
    if kind == "add":
        s = dims(2)
        return kind, [s, s], "", lambda a, b: lax.add(a, b)
    if kind == "select":
        s = dims(2)
        return kind, [s, s], "", lambda a, b: lax.select(a > b, a, b)
    if kind == "dot":
        m, k, n = dims(3)
        return kind, [(m, k), (k, n)], "", lambda a, b: lax.dot(a, b)
    if kind == "transpose":
        p = list(range(3))
        rng.shuffle(p)
        return kind, [dims(3)], listed(p), lambda a: lax.transpose(a, p)
    if kind == "sum":
        axes = [d for d in range(3) if rng.random() < 0.5]
        return kind, [dims(3)], listed(axes), lambda a: jnp.sum(a, axis=tuple(axes))
    if kind == "argmax":
        d = rng.randrange(2)
        return kind, [dims(2)], str(d), lambda a: lax.argmax(a, d, jnp.int32)
    if kind == "reshape":
        s = dims(rng.choice([1, 2, 3]))
        n = 1
        for i in s:
            n *= i
        out = []
        rest = n
        for _ in range(rng.choice([0, 1, 2])):
            f = rng.choice([f for f in range(1, rest + 1) if rest % f == 0])
            out.append(f)
            rest //= f
        out.append(rest)
        return kind, [s], listed(out), lambda a: lax.reshape(a, out)
    if kind == "concatenate":
        d = rng.randrange(2)
        s = dims(2)
        return kind, [s, s], str(d), lambda a, b: lax.concatenate([a, b], d)
    if kind == "slice":
        s = dims(2)
        start = [rng.randrange(n) for n in s]
        stop = [rng.randrange(b + 1, n + 1) for b, n in zip(start, s)]
        return kind, [s], listed(start + stop), lambda a: lax.slice(a, start, stop)
    if kind == "dynamic_slice":
        s = dims(2)
        sizes = [rng.randrange(1, n + 1) for n in s]
        return kind, [s], listed(sizes), lambda a: lax.dynamic_slice(a, (0, 0), sizes)
    if kind == "update":
        s = dims(2)
        part = tuple(rng.choice([n, max(1, n // 2)]) for n in s)
        return kind, [s, part], "", lambda a, b: lax.dynamic_update_slice(a, b, (0, 0))
    if kind == "pad":
        by = [rng.randrange(3) for _ in range(4)]
        return kind, [dims(2)], listed(by), lambda a: lax.pad(
            a, 0.0, [(by[0], by[1], 0), (by[2], by[3], 0)])
    if kind == "broadcast":
        s = dims(2)
        n = rng.choice([2, 3])
        return kind, [s], str(n), lambda a: lax.broadcast_in_dim(a, (n, *s), (1, 2))
    if kind == "squeeze":
        s = dims(2)
        d = rng.randrange(3)
        s = s[:d] + (1,) + s[d:]
        return kind, [s], str(d), lambda a: lax.squeeze(a, [d])
    if kind == "sort":
        d = rng.randrange(2)
        return kind, [dims(2)], str(d), lambda a: lax.sort(a, dimension=d)
    if kind == "cumsum":
        d = rng.randrange(2)
        return kind, [dims(2)], str(d), lambda a: lax.cumsum(a, d)
    return "reverse", [dims(2)], "0", lambda a: lax.rev(a, (0,))


def kept_in_place(shape, entries, spec):
    """Whether merged dims, but for the last that is split, have one element on each device. Later
    versions of JAX refuse others, whose elements would move."""
    dim_of = {axis: d for d, axes in enumerate(entries) for axis in axes}
    for merged in spec:
        axes = () if merged is None else ((merged,) if isinstance(merged, str) else merged)
        dims = sorted({dim_of[a] for a in axes})
        for d in range(dims[0], dims[-1]) if dims else ():
            if shape[d] != 2 ** len(entries[d]):
                return False
    return True


def uses_ones(shape, arguments):
    """Splits and merges that involve dims of one element, too: JAX takes some of them."""
    out = [int(n) for n in arguments.split()]
    proper = lambda dims: [n for n in dims if n != 1]
    return proper(shape) != proper(out) and (1 in shape or 1 in out)


def main():
    rng = random.Random(int(sys.argv[1]))
    seen = set()
    while len(seen) < int(sys.argv[2]):
        kind, shapes, arguments, f = cases(rng)
        entries = [random_spec(rng, s) for s in shapes]
        if len(shapes) > 1 and rng.random() < 0.6 and shapes[0] == shapes[1]:
            entries[1] = entries[0]
        given = "|".join(text(s, e) for s, e in zip(shapes, entries))
        try:
            with jax.set_mesh(mesh):
                out = jax.eval_shape(f, *[struct(s, e) for s, e in zip(shapes, entries)])
            result = text(out.shape, list(out.sharding.spec))
            if kind == "reshape" and not kept_in_place(shapes[0], entries[0], out.sharding.spec):
                result = "error"
        except Exception as e:  # pylint: disable=broad-except
            if "NotImplemented" in type(e).__name__:
                continue
            result = "error"
        if kind == "reshape" and uses_ones(shapes[0], arguments):
            continue
        line = f"{kind};{given};{arguments};{result}"
        if line not in seen:
            seen.add(line)
            print(line)


main()

# SPDX-License-Identifier: Apache-2.0
"""The corpus: real programs, exported by JAX, with inputs, outputs and what XLA's partitioner made of them.

    python corpus_programs.py OUT_DIR          needs pip install jax flax optax equinox (tests/corpus was made with jax 0.10.2)

Per case: OUT/NAME/argK.npy and outK.npy, and per variant V (plain: one device; s0, s1, s2: sharded over 8):
V.mlir (StableHLO + sdy), V.hlo (HLO text), V.json:
  tol          |got - out| <= tol (1 + |out|) for floats and complex; integers and bools exact; NaN where out is NaN
  args, outs   dtypes and shapes (a .npy of bfloat16 or float8 has numpy's void type: the dtype is the one given here)
  mesh, arg_specs, out_specs   the shardings, as in the module; the outputs' are those that XLA chose by itself, then imposed
  xla_collectives              counts and bytes received per device after XLA's partitioner (hlo_comm.py)
  xla_dot_flops                per device, dots and convolutions after XLA's partitioner (hlo_comm.py)
  xla_peak_bytes               per device: arguments + outputs + temporaries, as XLA reports them
  xla_wrong                    true where XLA's own sharded result misses tol: then don't compare with its bytes
Outputs are those of one device, with XLA's excess precision off.
"""
import glob, json, os, re, shutil, sys, tempfile, traceback, zlib
DUMP = tempfile.mkdtemp()
os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8 --xla_allow_excess_precision=false --xla_dump_hlo_as_text --xla_dump_hlo_pass_re=.*spmd.* --xla_dump_to=' + DUMP
os.environ['JAX_PLATFORMS'] = 'cpu'
import numpy as np, jax, jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hlo_comm import comm_stats

CASES = {'given': {}}
def case(group, *args, tol=2e-4):
    def deco(f): CASES[group][f.__name__] = (f, args, tol); return f
    return deco
R = np.random.default_rng(7)
def n(*s): return (R.standard_normal(s) * .5).astype(np.float32)
def u(*s): return R.random(s, dtype=np.float32)
def ints(hi, *s): return R.integers(0, hi, s).astype(np.int32)
G = 'given'

@case(G, n(16, 32), n(32, 64), n(64,), n(64, 16), n(16,))
def mlp_forward(x, w1, b1, w2, b2): return jnp.tanh(x @ w1 + b1) @ w2 + b2
@case(G, n(32, 64), n(64, 128), n(128, 64), n(32, 64))
def mlp_train_step(x, w1, w2, y):
    def loss(w1, w2): return jnp.mean((jax.nn.relu(x @ w1) @ w2 - y) ** 2)
    l, (g1, g2) = jax.value_and_grad(loss, (0, 1))(w1, w2)
    return w1 - .1 * g1, w2 - .1 * g2, l
@case(G, n(8, 16, 32), n(32, 96), n(32, 32), n(32, 64), n(64, 32))
def transformer_block(x, wqkv, wo, w1, w2):
    def ln(x): m = x.mean(-1, keepdims=True); return (x - m) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    q, k, v = jnp.split(ln(x) @ wqkv, 3, -1)
    h = lambda t: t.reshape(8, 16, 4, 8).transpose(0, 2, 1, 3)
    a = jnp.einsum('bhqd,bhkd->bhqk', h(q), h(k)) / 8 ** .5
    a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((16, 16), bool)), a, -1e9))
    o = jnp.einsum('bhqk,bhkd->bhqd', a, h(v)).transpose(0, 2, 1, 3).reshape(8, 16, 32)
    x = x + o @ wo
    return x + jax.nn.gelu(ln(x) @ w1) @ w2
@case(G, n(8, 16, 32), n(32, 96), n(32, 32), n(32, 64), n(64, 32), tol=2e-3)
def transformer_block_grad(x, *w): return jax.grad(lambda *a: transformer_block(*a).sum(), tuple(range(5)))(x, *w)
@case(G, n(64, 128))
def softmax_layernorm(x):
    x = jax.nn.softmax(x, -1); m = x.mean(-1, keepdims=True)
    return jax.nn.gelu((x - m) * lax.rsqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5))
@case(G, (n(64, 128) + 1j * n(64, 128)).astype(np.complex64))
def fft_batch(z): return jnp.fft.fft(z)
@case(G, n(64, 64))
def heat_roll(u0):
    return lax.fori_loop(0, 5, lambda i, u: u + .1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), u0)
@case(G, n(4, 16, 16, 8), n(3, 3, 8, 16))
def conv2d_same(x, w): return lax.conv_general_dilated(x, w, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
@case(G, n(4, 16, 16, 8), n(3, 3, 8, 16))
def conv2d_stride2_grads(x, w):
    f = lambda x, w: (lax.conv_general_dilated(x, w, (2, 2), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')) ** 2).sum()
    return jax.grad(f, (0, 1))(x, w)
@case(G, n(4, 16, 16, 8))
def maxpool_grad(x): return jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID') ** 2).sum())(x)
@case(G, n(64, 16), ints(64, 8, 16))
def embedding(e, t): return e[t].sum(1)
@case(G, n(64, 16), ints(64, 8, 16))
def embedding_grad(e, t): return jax.grad(lambda e: (e[t] ** 2).sum())(e)
@case(G, n(32, 64))
def sort_argsort_topk(x): return jnp.sort(x, 0), jnp.argsort(x, 1), lax.top_k(x, 4)
@case(G, n(32, 64))
def cumsum_cumprod(x): return jnp.cumsum(x, 0), jnp.cumprod(x, 1), lax.cummax(x, 1)
@case(G, np.array([3, 9], np.uint32))
def threefry_normal(k): kk = jax.random.wrap_key_data(k); return jax.random.normal(kk, (16, 32)), jax.random.bits(kk, (8, 8)), jax.random.permutation(kk, 64)
@case(G, n(16, 8, 32), n(32, 32), n(32, 32))
def rnn_scan(xs, w, uu):
    def cell(h, x): h = jnp.tanh(x @ w + h @ uu); return h, h
    return lax.scan(cell, jnp.zeros((8, 32)), xs)
@case(G, n(16, 8, 32), n(32, 32), n(32, 32), tol=2e-3)
def rnn_scan_grad(xs, w, uu): return jax.grad(lambda w, uu: (rnn_scan(xs, w, uu)[1] ** 2).sum(), (0, 1))(w, uu)
@case(G, n(16, 16))
def while_newton(a):
    a = a @ a.T + 16 * jnp.eye(16)
    def body(s): x, i, r = s; x = x @ (2 * jnp.eye(16) - a @ x); return x, i + 1, jnp.abs(a @ x - jnp.eye(16)).max()
    return lax.while_loop(lambda s: (s[2] > 1e-5) & (s[1] < 50), body, (a.T / (jnp.abs(a).sum(0).max() * jnp.abs(a).sum(1).max()), 0, jnp.float32(1)))
@case(G, n(16, 32), ints(3, 1))
def cond_switch(x, i): return lax.switch(i[0], [lambda x: x * 2, lambda x: jnp.sin(x), lambda x: x[::-1]], x)
@case(G, n(8, 4, 16), n(8, 16, 12))
def batched_matmul(a, b): return jnp.einsum('bij,bjk->bik', a, b), jnp.einsum('bij,bjk->ki', a, b)
@case(G, n(16, 24), n(24, 8), n(16, 8))
def elementwise_zoo(a, b, c):
    m = a @ b
    return jnp.where(m > c, jnp.exp(-m ** 2), jnp.log1p(jnp.abs(c))) + lax.erf(m) * jnp.arctan2(m, c) + jnp.floor(m * 10) % 3 + jnp.sign(c) * jnp.cbrt(m), jnp.isnan(m).any(), (m * 100).astype(jnp.int32) // 7, (m * 9).astype(jnp.int8) ^ 5
@case(G, n(12, 20))
def slicing_zoo(x): return x[2:10:2, ::-1], jnp.pad(x, ((1, 2), (3, 0)), constant_values=7), jnp.concatenate([x, x[:, :4]], 1), x.reshape(4, 3, 20).transpose(2, 0, 1), jnp.flip(x, 0), jnp.tile(x, (2, 1)), jnp.repeat(x, 2, 1)
@case(G, n(16, 24), ints(8, 2))
def dynamic_slicing(x, i): return lax.dynamic_slice(x, (i[0], i[1]), (8, 16)), lax.dynamic_update_slice(x, x[:4, :4] * 3, (i[1], i[0])), x.at[i[0], :].add(1.), x.at[:, i[1]].set(0.)
@case(G, n(64, 32))
def reductions_zoo(x): return x.sum(), x.mean(0), x.max(1), x.argmax(1), jnp.prod(1 + .01 * x, 0), x.std(), jax.nn.logsumexp(x, 1), (x > 0).all(0), (x > 0).any(1), jnp.median(x[:, 0])
@case(G, n(16, 16), n(16, 4), tol=2e-3)
def linear_solve_spd(a, b):
    a = a @ a.T + 4 * jnp.eye(16); l = jnp.linalg.cholesky(a)
    y = lax.linalg.triangular_solve(l, b, left_side=True, lower=True)
    return l, y
@case(G, n(8, 8), n(8, 8), tol=3e-2)
def mixed_precision(a, b): return (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(jnp.float32), jnp.dot(a.astype(jnp.float16), b.astype(jnp.float16), preferred_element_type=jnp.float32), lax.dot((a * 20).astype(jnp.int8), (b * 20).astype(jnp.int8), preferred_element_type=jnp.int32)
@case(G, n(64, 8), n(8, 8))
def vmap_jvp_hessian(x, w):
    f = lambda v: jnp.sum(jnp.tanh(w @ v) ** 2)
    return jax.vmap(f)(x), jax.vmap(jax.grad(f))(x), jax.vmap(jax.hessian(f))(x[:8]), jax.jvp(lambda v: w @ jnp.sin(v), (x[0],), (x[1],))

def _given_libs():
    import flax.linen as nn, optax
    class CNN(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(16, (3, 3))(x)); x = nn.avg_pool(x, (2, 2), (2, 2)); x = nn.GroupNorm(4)(x)
            x = nn.relu(nn.Conv(32, (3, 3), strides=(2, 2))(x)); x = x.reshape(x.shape[0], -1)
            return nn.Dense(10)(nn.relu(nn.Dense(64)(x)))
    m = CNN(); x = n(8, 16, 16, 4); p = m.init(jax.random.key(0), x)
    flat, td = jax.tree.flatten(p); flat = [np.asarray(t) for t in flat]
    lab = ints(10, 8)
    @case(G, x, lab, *flat, tol=2e-3)
    def flax_cnn_train(x, lab, *fl):
        def loss(p): return optax.softmax_cross_entropy_with_integer_labels(m.apply(p, x), lab).mean()
        pp = jax.tree.unflatten(td, fl); l, g = jax.value_and_grad(loss)(pp); return (l, *jax.tree.leaves(g))
    opt = optax.chain(optax.clip_by_global_norm(1.), optax.adamw(1e-2))
    w = [n(64, 32), n(32,), n(32, 16)]
    @case(G, *w, *[t * .1 for t in w])
    def optax_adamw(a, b, c, ga, gb, gc):
        pr = (a, b, c); s = opt.init(pr)
        for _ in range(2):
            up, s = opt.update((ga, gb, gc), s, pr); pr = optax.apply_updates(pr, up)
        return pr
    import equinox as eqx
    net = eqx.nn.GRUCell(16, 32, key=jax.random.key(1)); arrs, st = eqx.partition(net, eqx.is_array); fl, td2 = jax.tree.flatten(arrs)
    @case(G, n(8, 12, 16), *[np.asarray(t) for t in fl])
    def equinox_gru(xs, *fl):
        cell = eqx.combine(jax.tree.unflatten(td2, fl), st)
        def run(s): return lax.scan(lambda h, x: (cell(x, h), None), jnp.zeros(32), s)[0]
        return jax.vmap(run)(xs)

def specs_for(args, axes, rng):
    out = []
    for a in args:
        free = dict(axes); sp = []
        for d in a.shape:
            c = [k for k in free if d % free[k] == 0 and d >= free[k]]
            if c and rng.random() < .6:
                k = c[rng.integers(len(c))]; s = free.pop(k)
                c2 = [q for q in free if d % (s * free[q]) == 0]
                if c2 and rng.random() < .2: q = c2[0]; free.pop(q); sp.append((k, q))
                else: sp.append(k)
            else: sp.append(None)
        out.append(P(*sp))
    return out
MESHES = [(('x', 8),), (('x', 2), ('y', 4)), (('x', 2), ('y', 2), ('z', 2))]

def off(got, want, tol):
    """The largest excess over the tolerance, 0 when all is well."""
    g, w = np.asarray(got), np.asarray(want)
    if w.dtype.kind not in 'fcV': return float(np.sum(g != w))
    g, w = (x.astype(np.complex128 if w.dtype.kind == 'c' else np.float64) for x in (g, w))
    if not np.array_equal(np.isnan(g), np.isnan(w)): return float('inf')
    with np.errstate(invalid='ignore'): d = np.where(np.isnan(w) | (g == w), 0, np.abs(g - w) - tol * (1 + np.abs(np.where(np.isinf(w), 0, w))))
    return float(np.max(d, initial=0))

def write_case(out, name, f, args, tol):
    d = os.path.join(out, name); os.makedirs(d, exist_ok=True)
    res = [np.asarray(r) for r in jax.tree.leaves(jax.jit(f)(*args))]
    for i, a in enumerate(args): np.save(f'{d}/arg{i}.npy', a)
    for i, r in enumerate(res): np.save(f'{d}/out{i}.npy', r)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for v, axes in [('plain', None)] + [(f's{i}', m) for i, m in enumerate(MESHES)]:
        meta = dict(name=name, variant=v, tol=tol, args=[f'{a.dtype}{list(a.shape)}' for a in args], outs=[f'{r.dtype}{list(r.shape)}' for r in res])
        if axes is None: lo = jax.jit(f).lower(*args)
        else:
            mesh = jax.make_mesh(tuple(s for _, s in axes), tuple(k for k, _ in axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes))
            sp = specs_for(args, axes, rng); sh = tuple(NamedSharding(mesh, s) for s in sp)
            chosen = jax.jit(f, in_shardings=sh).lower(*args).compile().output_shardings     # what XLA would choose ...
            outs = jax.tree.map(lambda s, r: s if isinstance(s, NamedSharding) else NamedSharding(mesh, P()), chosen, chosen, is_leaf=lambda x: isinstance(x, jax.sharding.Sharding))
            lo = jax.jit(f, in_shardings=sh, out_shardings=outs).lower(*args)               # ... is imposed on everybody
            shutil.rmtree(DUMP, ignore_errors=True)
            c = lo.compile(); mem = c.memory_analysis()
            parts = sorted(glob.glob(DUMP + '/*after_spmd-partitioning*.txt'), key=os.path.getmtime)
            got = jax.tree.leaves(c(*[jax.device_put(a, s) for a, s in zip(args, sh)]))
            meta.update(mesh=dict(axes), arg_specs=[str(s) for s in sp], out_specs=[str(s.spec) for s in jax.tree.leaves(outs, is_leaf=lambda x: isinstance(x, jax.sharding.Sharding))],
                        xla_collectives=comm_stats(c.as_text()), xla_dot_flops=comm_stats(open(parts[-1]).read())['dot_flops'],
                        xla_peak_bytes=mem.temp_size_in_bytes + mem.argument_size_in_bytes + mem.output_size_in_bytes,
                        xla_wrong=any(off(g, r, tol) > 0 for g, r in zip(got, res)))
        open(f'{d}/{v}.mlir', 'w').write(lo.as_text()); open(f'{d}/{v}.hlo', 'w').write(lo.compiler_ir('hlo').as_hlo_text(print_large_constants=True))
        json.dump(meta, open(f'{d}/{v}.json', 'w'), indent=1)

def main(out, group, libs):
    libs(); ok = bad = 0
    for name, (f, args, tol) in CASES[group].items():
        try: write_case(out, name, f, args, tol); ok += 1
        except Exception as e: bad += 1; print('FAILED', name, type(e).__name__, str(e)[:300]); traceback.print_exc(limit=3)
    print(ok, 'cases', bad, 'failed')

if __name__ == '__main__': main(sys.argv[1], 'given', _given_libs)

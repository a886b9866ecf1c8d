# SPDX-License-Identifier: Apache-2.0
"""Runs one device's program (HLO text after partitioning) on XLA itself, on 8 devices.   usage: run_partitioned.py MODULE.hlo CASE_DIR VARIANT
Shards CASE_DIR/argK.npy by V.json's arg_specs, executes the module as an SPMD program, reassembles by out_specs and compares with outK.npy.
Says whether the printed program is really the program: nothing of Tessera's runtime takes part.
"""
import json, os, re, sys
os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=8'; os.environ['JAX_PLATFORMS'] = 'cpu'
import numpy as np, jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jax._src.lib import xla_client as xc
from jax._src import compiler

def explicit_groups(m):
    """replica_groups over named mesh axes, written out as lists."""
    sizes = [(k.strip().strip("'"), int(v)) for k, v in (x.split('=') for x in m.group(1).split(','))]
    ids = np.arange(int(np.prod([v for _, v in sizes])))
    if m.group(2):
        d = re.match(r'\[([\d,]+)\](?:T\(([\d,]+)\))?', m.group(2)); ids = ids.reshape([int(x) for x in d.group(1).split(',')])
        if d.group(2): ids = ids.transpose([int(x) for x in d.group(2).split(',')])
    shape, split = [], []
    wanted = {a: (int(p or 0), int(z or 0)) for a, p, z in re.findall(r"'([^']+)'(?::\((\d+)\)(\d+))?", m.group(3))}
    for k, v in sizes:
        pre, part = wanted.get(k, (0, 0))
        pieces = [(v, k in wanted)] if not part else [(pre, False), (part, True), (v // pre // part, False)]
        for n, w in pieces: shape.append(n); split.append(w)
    ids = ids.reshape(shape); inner = [i for i, w in enumerate(split) if w]; outer = [i for i, w in enumerate(split) if not w]
    rows = ids.transpose(outer + inner).reshape(-1, int(np.prod([shape[i] for i in inner])))
    return 'replica_groups={' + ','.join('{' + ','.join(map(str, r)) + '}' for r in rows) + '}'

def load(text, n=8):
    """Compiles it with one replica a device: XLA then leaves the program as it is (with partitions it would want to partition)."""
    text = re.sub(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\((.*?\)?)\))? \{(.*?)\}", explicit_groups, text)
    text = re.sub(r'\bpartition-id\(\)', 'replica-id()', text)
    text = re.sub(r',? ?channel_id=\d+', '', text); text = re.sub(r',? ?use_global_device_ids=true', '', text)
    text = re.sub(r'num_partitions=\d+', f'replica_count={n}', text, count=1)
    module = xc.hlo.hlo_module_from_text(text)
    mlir = xc._xla.mlir.xla_computation_to_mlir_module(xc.XlaComputation(module.as_serialized_hlo_module_proto()))
    opts = compiler.get_compile_options(num_replicas=n, num_partitions=1, device_assignment=np.arange(n).reshape(n, 1))
    return jax.devices()[0].client.compile_and_load(mlir, xc.DeviceList(tuple(jax.devices()[:n])), opts)

def main(path, case, variant):
    meta = json.load(open(f'{case}/{variant}.json'))
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(meta['mesh'].values())), tuple(meta['mesh']))
    exe = load(open(path).read())
    args = [jax.device_put(np.load(f'{case}/arg{i}.npy'), NamedSharding(mesh, eval(s))) for i, s in enumerate(meta['arg_specs'])]
    order = list(mesh.devices.flat)
    res = exe.execute_sharded(args).disassemble_into_single_device_arrays()
    worst = 0.
    for i, (shards, spec) in enumerate(zip(res, meta['out_specs'])):
        want = np.load(f'{case}/out{i}.npy'); sh = NamedSharding(mesh, eval(spec)); got = np.zeros_like(want)
        by_dev = {s.devices().pop() if hasattr(s, 'devices') else s.device(): np.asarray(s) for s in shards}
        for dev, idx in sh.devices_indices_map(want.shape).items(): got[idx] = by_dev[dev]
        if want.dtype.kind in 'fc': worst = max(worst, float(np.max(np.abs(got - want) / (1 + np.abs(want)), initial=0)))
        elif want.dtype.kind != 'V' and not np.array_equal(got, want): worst = float('inf')
    print(f'{meta["name"]}/{variant}: off by {worst:.2e} (tol {meta["tol"]:g})'); sys.exit(not worst <= meta['tol'])
if __name__ == '__main__': main(*sys.argv[1:4])

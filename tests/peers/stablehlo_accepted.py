# SPDX-License-Identifier: Apache-2.0
"""Gives StableHLO that Tessera wrote to JAX's own parser, compiles it there and runs it.

usage: stablehlo_accepted.py [--tessera BINARY | --texts DIR] CORPUS_DIR [NAME ...]
       stablehlo_accepted.py FILE.mlir ...

With a folder of cases (CASE/V.hlo, CASE/V.json, CASE/argK.npy, CASE/outK.npy): `BINARY convert`
turns each V.hlo into StableHLO, or DIR/CASE.V.mlir is taken as it is. A variant with a mesh is
compiled for as many devices, and its arguments are placed by V.json's arg_specs. Results are
compared with outK.npy. Files alone are parsed and compiled only. Needs jax; the exit status is 1 if
any text is refused or gives wrong numbers.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client as xc
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir


def compiled(text, devices):
    """Parses, verifies and compiles; Shardy partitions if there are several devices."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        code = mlir.module_to_bytecode(module)
    options = compiler.get_compile_options(
        num_replicas=1, num_partitions=devices,
        device_assignment=np.arange(devices).reshape(1, devices))
    build = options.executable_build_options
    build.use_spmd_partitioning = devices > 1
    build.use_shardy_partitioner = True
    everyone = xc.DeviceList(tuple(jax.devices()[:devices]))
    return jax.devices()[0].client.compile_and_load(code, everyone, options)


def place(array, mesh, spec):
    if array.dtype.kind == 'V':  # bfloat16, as numpy writes it
        array = array.view(jax.numpy.bfloat16)
    return jax.device_put(array, NamedSharding(mesh, spec))


def excess(got, want, tol):
    """How far outside of the tolerance the worst element is; 0 if none is."""
    if want.dtype.kind == 'V':
        want = want.view(jax.numpy.bfloat16)
    if want.dtype.kind not in 'fcV':
        return 0. if np.array_equal(got, want) else float('inf')
    kind = np.complex128 if want.dtype.kind == 'c' else np.float64
    g, w = np.asarray(got).astype(kind), want.astype(kind)
    with np.errstate(invalid='ignore'):
        finite = np.where(np.isinf(w), 0, w)
        d = np.where(np.isnan(w) | (g == w), 0, np.abs(g - w) - tol * (1 + np.abs(finite)))
    if not np.array_equal(np.isnan(g), np.isnan(w)):
        return float('inf')
    return float(max(0., np.max(d, initial=0)))


def whole(shards, want, sharding):
    """Puts the devices' parts of one result together."""
    out = np.zeros(want.shape, want.view(jax.numpy.bfloat16).dtype if want.dtype.kind == 'V'
                   else want.dtype)
    parts = {next(iter(s.devices())): np.asarray(s) for s in shards}
    for device, index in sharding.devices_indices_map(want.shape).items():
        out[index] = parts[device]
    return out


def check_case(case, variant, text):
    facts = json.loads((case / f'{variant}.json').read_text())
    axes = facts.get('mesh') or {'all': 1}
    devices = int(np.prod(list(axes.values())))
    mesh = Mesh(np.array(jax.devices()[:devices]).reshape(tuple(axes.values())), tuple(axes))
    executable = compiled(text, devices)
    in_specs = facts.get('arg_specs') or ['P()'] * len(facts['args'])
    out_specs = facts.get('out_specs') or ['P()'] * len(facts['outs'])
    arguments = [place(np.load(case / f'arg{k}.npy'), mesh, eval(s))
                 for k, s in enumerate(in_specs)]
    results = executable.execute_sharded(arguments).disassemble_into_single_device_arrays()
    worst = 0.
    for k, (shards, spec) in enumerate(zip(results, out_specs)):
        want = np.load(case / f'out{k}.npy')
        got = whole(shards, want, NamedSharding(mesh, eval(spec)))
        worst = max(worst, excess(got, want, facts['tol']))
    return worst, bool(facts.get('xla_wrong'))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--tessera', default='tessera')
    parser.add_argument('--texts', type=pathlib.Path)
    parser.add_argument('paths', nargs='+')
    args = parser.parse_args()
    jax.numpy.linalg.cholesky(np.eye(2))  # loads LAPACK; its custom calls crash without
    accepted = right = count = 0

    def report(name, run):
        nonlocal accepted, right, count
        count += 1
        try:
            worst, forgiven = run()
        except Exception as e:  # whatever the parser or the compiler says
            print(f'{name}: refused: {str(e)[:2000]}')
            return
        accepted += 1
        if worst == 0 or forgiven:
            right += 1
        else:
            print(f'{name}: wrong by {worst:.2e} over the tolerance')

    if not os.path.isdir(args.paths[0]):
        for path in args.paths:
            def only_compile(path=path):
                compiled(open(path).read(), 1)
                return 0., False
            report(path, only_compile)
    else:
        corpus = pathlib.Path(args.paths[0])
        for case in sorted(p for p in corpus.iterdir() if p.is_dir()):
            if args.paths[1:] and case.name not in args.paths[1:]:
                continue
            for source in sorted(case.glob('*.hlo')):
                def convert_and_run(case=case, source=source):
                    if args.texts:
                        text = (args.texts / f'{case.name}.{source.stem}.mlir').read_text()
                    else:
                        text = subprocess.run(
                            [args.tessera, 'convert', '--to', 'stablehlo', str(source)],
                            check=True, capture_output=True, text=True).stdout
                    return check_case(case, source.stem, text)
                report(f'{case.name}/{source.stem}', convert_and_run)
    print(f'{accepted} of {count} texts accepted, {right} right')
    sys.exit(right != count)


if __name__ == '__main__':
    main()

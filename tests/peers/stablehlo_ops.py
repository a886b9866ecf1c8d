# SPDX-License-Identifier: Apache-2.0
"""Asks XLA whether StableHLO texts mean what the HLO beside them means.

usage: stablehlo_ops.py tests/text/data/write_ops.txt [NAME ...]

The file has cases `== name`, HLO, `--`, StableHLO as Tessera writes it; the tests of the writer
compare with it letter by letter. Here each StableHLO text is given to JAX's parser; where XLA
compiles both forms on one device they run on the same numbers, and the results must be equal bit
for bit. Needs jax; the exit status is 1 if any text is refused or gives other bits.
"""
import os
import re
import sys

os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import jax
import ml_dtypes
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import xla_client as xc
from jaxlib.mlir import ir

NAMES = dict(pred='bool', bf16='bfloat16', f8e4m3fn='float8_e4m3fn', f8e5m2='float8_e5m2',
             s4='int4', c64='complex64', c128='complex128', f16='float16', f32='float32',
             f64='float64', **{f'{k}{n}': f'{w}{n}' for k, w in (('s', 'int'), ('u', 'uint'))
                               for n in (8, 16, 32, 64)})


def dtype(name):
    return np.dtype(getattr(ml_dtypes, NAMES[name], NAMES[name]))


def parameters(hlo, seed):
    """Random values for the entry's parameters; tuples as their parts."""
    entry = hlo[hlo.index('ENTRY'):]
    found = {}
    for shape, number in re.findall(r'= (\S.*?) parameter\((\d+)\)', entry):
        found[int(number)] = re.findall(r'(\w+)\[([\d,]*)\]', shape)
    random = np.random.default_rng(seed)
    out = []
    for number in sorted(found):
        for kind, dims in found[number]:
            t, dims = dtype(kind), [int(d) for d in dims.split(',') if d]
            if t.kind == 'c':
                out.append((random.normal(size=dims) + 1j * random.normal(size=dims)).astype(t))
            elif t.kind in 'biu':
                out.append(random.integers(0, 2 if t.kind == 'b' else 5, size=dims).astype(t))
            else:
                out.append(random.normal(size=dims).astype(np.float32).astype(t))
    return out


def compiled(code):
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1,
                                           device_assignment=np.zeros((1, 1), int))
    device = jax.devices()[0]
    return device.client.compile_and_load(code, xc.DeviceList((device,)), options)


def results(executable, values):
    device = jax.devices()[0]
    out = executable.execute_sharded([jax.device_put(v, device) for v in values])
    return [np.asarray(shards[0]) for shards in out.disassemble_into_single_device_arrays()]


def check(hlo, text):
    """What is wrong, or None, or '(...)' if it could only be parsed and translated."""
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        code = mlir.module_to_bytecode(module)
        # Also what this machine can't run must be something that XLA can read.
        xc._xla.mlir.mlir_module_to_xla_computation(code, use_tuple_args=False,
                                                    return_tuple=False)
    try:
        source = xc.hlo.hlo_module_from_text(hlo)
        computation = xc.XlaComputation(source.as_serialized_hlo_module_proto())
        theirs = compiled(xc._xla.mlir.xla_computation_to_mlir_module(computation))
        ours = compiled(code)
    except Exception as e:
        return '(parsed only: ' + str(e).split('\n')[0][:100] + ')'
    values = parameters(hlo, 3)
    for a, b in zip(results(theirs, values), results(ours, values), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype or a.tobytes() != b.tobytes():
            return f'other bits: {a} and {b}'
    return None


def main():
    jax.config.update('jax_enable_x64', True)
    cases = re.split(r'^== (\S+)\n', open(sys.argv[1]).read(), flags=re.M)[1:]
    count = ran = wrong = 0
    for name, body in zip(cases[::2], cases[1::2]):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        hlo, text = re.split(r'^--\n', body, flags=re.M)
        count += 1
        try:
            said = check(hlo, text)
        except Exception as e:
            said = 'refused: ' + str(e)[:1000]
        if said is None:
            ran += 1
            continue
        print(f'{name}: {said}')
        wrong += not said.startswith('(')
    print(f'{count} texts: {count - wrong} accepted, {ran} run with equal bits, {wrong} wrong')
    sys.exit(wrong != 0)


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Writes ../parity/jax_names.txt: the public names of the modules of JAX that docs/reference/parity.md compares with.

usage: jax_names.py

One line a name: module, name, and whether it is a function, a class or a value. Modules, private
names, and names that JAX keeps for an older version (access warns) are left out.
"""
import importlib
import inspect
import os
import pathlib
import warnings

os.environ['JAX_PLATFORMS'] = 'cpu'
import jax

MODULES = ('jax', 'jax.sharding', 'jax.experimental.custom_partitioning', 'jax.numpy', 'jax.numpy.linalg', 'jax.numpy.fft',
           'jax.lax', 'jax.nn', 'jax.nn.initializers', 'jax.random', 'jax.scipy.special', 'jax.scipy.linalg')


def kind_of(value):
    if inspect.isclass(value):
        return 'class'
    return 'function' if callable(value) else 'value'


def names(module):
    for name in sorted(dir(module)):
        if name.startswith('_') or name.endswith('_p'):
            continue  # of primitives, which transformations see
        with warnings.catch_warnings():
            warnings.simplefilter('error', DeprecationWarning)
            try:
                value = getattr(module, name)
            except (AttributeError, DeprecationWarning):
                continue
        if not inspect.ismodule(value):
            yield name, kind_of(value)


def main():
    lines = [f'# Public names of JAX {jax.__version__}; made by tests/peers/jax_names.py.']
    for path in MODULES:
        lines += [f'{path} {name} {kind}' for name, kind in names(importlib.import_module(path))]
    out = pathlib.Path(__file__).resolve().parent.parent / 'parity' / 'jax_names.txt'
    out.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    print(f'{out}: {len(lines) - 1} names')


if __name__ == '__main__':
    main()

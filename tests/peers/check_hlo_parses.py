# SPDX-License-Identifier: Apache-2.0
"""Checks that XLA's own parser reads HLO text that Tessera printed.

    python3 tests/peers/check_hlo_parses.py <file or folder>...

Needs jaxlib (any version from 0.4.30 on). Prints each text that is refused with XLA's message, and
for each text that is read whether XLA's print of it differs in its instructions' count.
The test binary tessera_ir_tests writes what it prints to `ir_printed/` below its working folder.
"""

import pathlib
import sys


def reader():
    from jaxlib import xla_client

    if hasattr(xla_client, "hlo"):
        return xla_client.hlo.hlo_module_from_text
    return xla_client._xla.hlo_module_from_text  # before 0.7


def instructions(text):
    return sum(" = " in line and line.startswith("  ") for line in text.splitlines())


def main():
    parse = reader()
    files = []
    for argument in sys.argv[1:]:
        path = pathlib.Path(argument)
        files += sorted(path.rglob("*.hlo")) if path.is_dir() else [path]
    if not files:
        sys.exit(__doc__)
    bad = 0
    for file in files:
        text = file.read_text()
        try:
            module = parse(text)
        except Exception as error:  # XLA's error type differs between versions
            bad += 1
            print(f"REFUSED {file}\n  {str(error)[:800]}")
            continue
        theirs = instructions(module.to_string())
        # XLA writes async-start without its computation.
        if theirs != instructions(text) and "async-start" not in text:
            bad += 1
            print(f"DIFFERS {file}: {instructions(text)} instructions printed, {theirs} read")
    print(f"{len(files)} texts, {bad} not read as printed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

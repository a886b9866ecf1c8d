# SPDX-License-Identifier: Apache-2.0
"""Runs what `tessera partition` prints for a corpus on XLA itself, on 8 devices, and compares.

    python3 tests/peers/check_partitioned.py PATH/TO/tessera tests/corpus [--form hlo|mlir] [--only REGEX]

Needs jax. Nothing of Tessera's runtime takes part: the printed program of one device is compiled by
XLA, run with the shards that V.json's arg_specs ask for and put together by out_specs. Prints each
variant that fails with the reason, then the counts.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def worker(jobs):
    """Runs (program, case folder, variant) one after the other; a line of JSON for each."""
    sys.path.insert(0, str(HERE))
    import run_partitioned
    from jaxlib import lapack

    # XLA's calls of LAPACK jump to null before somebody has done this.
    lapack._lapack.initialize()
    for program, case, variant in jobs:
        said = {"case": case, "variant": variant, "ok": False, "why": ""}
        try:
            run_partitioned.main(program, case, variant)
        except SystemExit as e:
            said["ok"] = not e.code
            said["why"] = "" if said["ok"] else "wrong result"
        except Exception as e:  # noqa: BLE001 - whatever XLA says is the answer
            said["why"] = f"{type(e).__name__}: {e}"[:600]
        print("\nROW " + json.dumps(said), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tessera")
    parser.add_argument("corpus")
    parser.add_argument("--form", default="hlo", choices=["hlo", "mlir"])
    parser.add_argument("--only", default=".")
    parser.add_argument("--keep", help="folder for the printed programs")
    args = parser.parse_args()
    failed, jobs = [], []
    folder = args.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    for text in sorted(pathlib.Path(args.corpus).glob(f"*/*.{args.form}")):
        case, variant = text.parent, text.stem
        if variant == "plain" or not re.search(args.only, f"{case.name}/{variant}"):
            continue
        program = os.path.join(folder, f"{case.name}.{variant}.{args.form}.part.hlo")
        ran = subprocess.run([args.tessera, "partition", str(text), "-o", program],
                             capture_output=True, text=True, timeout=300)
        if ran.returncode:
            failed.append((case.name, variant, "tessera: " + ran.stderr.strip()))
        else:
            jobs.append((program, str(case), variant))
    total = len(jobs) + len(failed)
    while jobs:
        ran = subprocess.run([sys.executable, __file__, "--worker", json.dumps(jobs)],
                             capture_output=True, text=True)
        rows = [json.loads(l[4:]) for l in ran.stdout.splitlines() if l.startswith("ROW ")]
        for row in rows:
            if not row["ok"]:
                said = [l for l in ran.stdout.splitlines()
                        if l.startswith(f"{pathlib.Path(row['case']).name}/{row['variant']}:")]
                why = " ".join([row["why"], *said])
                failed.append((pathlib.Path(row["case"]).name, row["variant"], why))
        jobs = jobs[len(rows):]
        if jobs:
            # XLA ended the process: the next job is to blame.
            program, case, variant = jobs.pop(0)
            failed.append((pathlib.Path(case).name, variant,
                           f"XLA died ({ran.returncode}): {ran.stderr.strip()[-600:]}"))
    for case, variant, why in failed:
        print(f"FAILED {case}/{variant}: {why}")
    print(f"{total - len(failed)} right, {len(failed)} wrong")
    sys.exit(1 if failed or not total else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(json.loads(sys.argv[2]))
    else:
        main()

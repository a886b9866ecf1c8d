# SPDX-License-Identifier: Apache-2.0
"""Compares what `tessera partition` prints for a corpus with what XLA's partitioner made of it.

    python3 tests/peers/compare_xla.py PATH/TO/tessera tests/corpus [--form mlir|hlo] [--only REGEX]
                                       [--save F.json] [--against F.json]

Per variant, from the printed text (hlo_comm.py) and V.json: bytes received, flops of dots and convolutions,
and peak bytes of one device. Prints each variant that is above XLA in bytes, above 1.05 of its flops or
above 1.1 of its peak, or has a full gather or more loops of unknown length, then how many there are and the geometric mean of the bytes' ratios, each at least
0.05. --save keeps the figures; --against lists what changed since they were kept. Variants whose results
XLA itself has wrong are not compared. Exit status 1 if anything is above.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import hlo_comm


def figures(tessera, text, out):
    """Bytes, flops and peak of one printed program; a text that says why there is none."""
    ran = subprocess.run([tessera, "partition", str(text), "-o", out, "--json"],
                         capture_output=True, text=True, timeout=600)
    if ran.returncode:
        return ran.stderr.strip()[:400]
    said = json.loads(ran.stdout)
    program = pathlib.Path(out).read_text()
    counted = hlo_comm.comm_stats(program)
    # V.json's flops were counted before XLA knew how often a loop runs.
    once = hlo_comm.comm_stats(program.replace("known_trip_count", "trips"))
    if counted["total_bytes"] != int(said["bytes_received"]):
        return f"the text has {counted['total_bytes']} bytes, tessera says {said['bytes_received']}"
    return {"bytes": counted["total_bytes"], "flops": once["dot_flops"],
            "peak": said["peak_bytes_per_device"], "unknown": counted.get("unknown_trip_counts", 0),
            "full_gathers": sum(1 for c in said["collectives"] if c["full_gather"])}


def above(ours, theirs):
    """The letters of what is above XLA: Bytes, Flops, Peak, loops of Unknown length; G: a full gather."""
    letters = "B" if ours["bytes"] > theirs["bytes"] else ""
    letters += "F" if ours["flops"] > 1.05 * theirs["flops"] else ""
    letters += "P" if theirs["peak"] and ours["peak"] > 1.1 * theirs["peak"] else ""
    letters += "G" if ours["full_gathers"] else ""
    return letters + ("U" if ours["unknown"] > theirs["unknown"] else "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tessera")
    parser.add_argument("corpus")
    parser.add_argument("--form", default="mlir", choices=["hlo", "mlir"])
    parser.add_argument("--only", default=".")
    parser.add_argument("--save")
    parser.add_argument("--against")
    args = parser.parse_args()
    folder = tempfile.mkdtemp()
    kept, bad, logs = {}, 0, []
    for text in sorted(pathlib.Path(args.corpus).glob(f"*/s*.{args.form}")):
        name = f"{text.parent.name}/{text.stem}"
        if not re.search(args.only, name):
            continue
        facts = json.loads(text.with_suffix(".json").read_text())
        ours = figures(args.tessera, text, os.path.join(folder, "program.hlo"))
        if isinstance(ours, str):
            print(f"FAILED {name}: {ours}")
            bad += 1
            continue
        kept[name] = ours
        if facts["xla_wrong"]:
            continue
        theirs = {"bytes": facts["xla_collectives"]["total_bytes"], "flops": facts["xla_dot_flops"],
                  "peak": facts["xla_peak_bytes"],
                  "unknown": facts["xla_collectives"].get("unknown_trip_counts", 0)}
        letters = above(ours, theirs)
        if letters:
            bad += 1
            print(f"{letters:4} {name:40} " + "  ".join(
                f"{k} {ours[k]}/{theirs[k]}" for k in ("bytes", "flops", "peak")))
        ratio = ours["bytes"] / theirs["bytes"] if theirs["bytes"] else 1.0 if not ours["bytes"] else 2.0
        logs.append(math.log(max(ratio, 0.05)))
    if args.against:
        before = json.loads(pathlib.Path(args.against).read_text())
        for name in sorted(set(before) & set(kept)):
            changes = [f"{k} {before[name][k]} -> {kept[name][k]}" for k in kept[name]
                       if kept[name][k] != before[name].get(k)]
            if changes:
                print(f"changed {name:40} " + "  ".join(changes))
    if args.save:
        pathlib.Path(args.save).write_text(json.dumps(kept, indent=1, sort_keys=True))
    mean = math.exp(sum(logs) / len(logs)) if logs else float("nan")
    print(f"{len(logs)} variants compared, geometric mean {mean:.3f} of XLA's bytes, {bad} above or failed")
    sys.exit(1 if bad or not logs else 0)


if __name__ == "__main__":
    main()

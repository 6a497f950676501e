#!/usr/bin/env python3
"""Puts what scripts/gpu/library.sh and scripts/gpu/torch.sh left in a directory into its library.json.

    bench/library_evidence.py DIRECTORY
        library_grid_*.jsonl   "grid"         (library.sh grid, all shards)
        interposer.json        "interposer"   (torch.sh decoder)
        "wrong_device" in library.json, of two devices, takes the place of "not run" in its "bad_input"

What is not there is left as it was. Exit codes: 0 all well, 1 something measured falls short, 2 bad input, 3 nothing there.
"""

import glob
import json
import math
import os
import sys

GRID_SHAPES = 1000
LEAST_RATIO = 0.99
LEAST_OWN_SHARE = 0.9


def read_rows(directory):
    """The last row of each shape; lines that a run was killed in are none."""
    rows = {}
    for path in sorted(glob.glob(os.path.join(directory, "library_grid_*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    row = json.loads(line)
                    rows[(row["m"], row["n"], row["k"])] = row
                except (ValueError, KeyError, TypeError):
                    continue
    return rows


def grid_of(rows):
    timed = {shape: row["ratio"] for shape, row in rows.items() if row["ratio"] > 0}
    worst = min(timed, key=timed.get, default=None)
    return {
        "shapes": len(rows),
        "right": sum(1 for row in rows.values() if row["right"]),
        "timed": len(timed),
        "worst_ratio": timed.get(worst),
        "worst_shape": None if worst is None else "x".join(map(str, worst)),
        "below_0.99": sum(1 for ratio in timed.values() if not ratio >= LEAST_RATIO),
        "geomean": math.exp(sum(map(math.log, timed.values())) / len(timed)) if timed else None,
        "own_share": sum(1 for row in rows.values() if row["own"]) / len(rows),
    }


def grid_holds(grid):
    return (grid["right"] == grid["timed"] == grid["shapes"] == GRID_SHAPES and grid["below_0.99"] == 0
            and grid["own_share"] >= LEAST_OWN_SHARE)


def read_json(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main() -> int:
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("library_evidence: give the directory with library.json", file=sys.stderr)
        return 2
    directory = sys.argv[1]
    target = os.path.join(directory, "library.json")
    evidence = read_json(target)
    found, good = [], True

    rows = read_rows(directory)
    if rows:
        evidence["grid"] = grid_of(rows)
        found.append("grid")
        good = good and grid_holds(evidence["grid"])
    blocks = read_json(os.path.join(directory, "interposer.json"))
    if blocks:
        evidence["interposer"] = blocks["interposer"]
        evidence["interposer_missing"] = blocks.get("missing", [])
        found.append("interposer")
        good = good and not evidence["interposer_missing"] and all(row["within_bound"] for row in blocks["interposer"])
    if "wrong_device" in evidence:
        for row in evidence.get("bad_input", []):
            if row["case"] == "wrong device" and row["status"].startswith("not run"):
                row["status"] = evidence["wrong_device"]
                found.append("bad_input")
    if not found:
        print(f"library_evidence: nothing new in {directory}", file=sys.stderr)
        return 3
    with open(target, "w", encoding="utf-8") as file:
        json.dump(evidence, file, indent=1, sort_keys=True)
        file.write("\n")
    print(json.dumps({name: evidence[name] for name in found if name != "bad_input"}))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Puts the shards of a run over the grid (scripts/gpu/library.sh grid) into the library's evidence file.

    bench/library_evidence.py DIRECTORY      DIRECTORY/library_grid_*.json -> "grid" in DIRECTORY/library.json
"""

import glob
import json
import math
import os
import sys


def main() -> int:
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print("library_evidence: give the directory with library.json", file=sys.stderr)
        return 2
    directory = sys.argv[1]
    rows = []
    for path in sorted(glob.glob(os.path.join(directory, "library_grid_*.json"))):
        with open(path, encoding="utf-8") as file:
            for name, shard in json.load(file).items():
                if name.startswith("grid"):
                    rows += shard["rows"]
    if not rows:
        print(f"library_evidence: no rows in {directory}/library_grid_*.json", file=sys.stderr)
        return 3
    ratios = [row[3] for row in rows]
    if not all(ratio > 0 for ratio in ratios):
        print("library_evidence: a shape was not timed", file=sys.stderr)
        return 1
    target = os.path.join(directory, "library.json")
    evidence = {}
    if os.path.exists(target):
        with open(target, encoding="utf-8") as file:
            evidence = json.load(file)
    worst = min(rows, key=lambda row: row[3])
    evidence["grid"] = {
        "shapes": len(rows),
        "right": sum(1 for row in rows if row[5]),
        "worst_ratio": worst[3],
        "worst_shape": "x".join(str(size) for size in worst[:3]),
        "below_0.99": sum(1 for ratio in ratios if ratio < 0.99),
        "geomean": math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios)),
        "own_share": sum(1 for row in rows if row[4]) / len(rows),
    }
    with open(target, "w", encoding="utf-8") as file:
        json.dump(evidence, file, indent=1, sort_keys=True)
        file.write("\n")
    print(json.dumps(evidence["grid"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

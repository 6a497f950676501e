#!/usr/bin/env python3
"""Makes results/tasks.json of what scripts/gpu/tasks.sh measured.

    bench/tasks_evidence.py DIRECTORY [--output FILE]

DIRECTORY holds NAME.json of every task, as `warpsmith bench --task --json` prints it. The summary is taken over all tasks:
mean, median, maximum and minimum of the ratios (a baseline's time over ours) and the share above 1.01, for each baseline and
for the fastest one of each task. Exit codes: 1 a task without an accepted candidate, 2 bad input.
"""
import argparse
import json
import pathlib
import statistics
import sys


def summarize(ratios):
    return {
        "tasks": len(ratios),
        "mean": statistics.fmean(ratios),
        "median": statistics.median(ratios),
        "max": max(ratios),
        "min": min(ratios),
        "share_above_1.01": sum(ratio > 1.01 for ratio in ratios) / len(ratios),
    }


def read(path):
    try:
        report = json.loads(path.read_text())
        return report["provenance"], report["tasks"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"tasks_evidence: {path}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("results/tasks.json"))
    arguments = parser.parse_args()
    files = sorted(arguments.directory.glob("*.json"))
    if not files:
        print(f"tasks_evidence: no *.json in {arguments.directory}", file=sys.stderr)
        return 2
    provenance, rows, ratios = None, [], {}
    for path in files:
        provenance, tasks = read(path)
        rows += tasks
    for row in rows:
        speedups = row.get("speedups", {})
        for baseline, ratio in speedups.items():
            ratios.setdefault(baseline, []).append(ratio)
        if speedups:
            ratios.setdefault("fastest", []).append(min(speedups.values()))
    evidence = {
        "provenance": provenance,
        "accepted": sum("best" in row for row in rows),
        "count": len(rows),
        "summary": {baseline: summarize(list_) for baseline, list_ in sorted(ratios.items())},
        "tasks": rows,
    }
    arguments.output.write_text(json.dumps(evidence, indent=1) + "\n")
    for baseline, figures in evidence["summary"].items():
        print(
            f"{baseline:24} {figures['tasks']:3} tasks  mean {figures['mean']:.2f}  median {figures['median']:.2f}  "
            f"max {figures['max']:.2f}  above 1.01x {100 * figures['share_above_1.01']:.0f} %"
        )
    print(f"{evidence['accepted']} of {evidence['count']} tasks have an accepted candidate")
    return 0 if evidence["accepted"] == evidence["count"] else 1


if __name__ == "__main__":
    sys.exit(main())

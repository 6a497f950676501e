#!/usr/bin/env python3
"""Makes results/tasks.json of what scripts/gpu/tasks.sh measured.

    bench/tasks_evidence.py REPORT... [--output FILE]

REPORT is a tasks.jsonl, or a directory that holds one: a line a task, as `warpsmith bench --task --json` prints it without
line ends. Of a task that is there twice the last line counts. The summary is taken over all tasks:
mean, median, maximum and minimum of the ratios (a baseline's time over ours) and the share above 1.01, for each baseline and
for the fastest one of each task, of cold times ("summary") and of warm ones ("warm_summary"). Exit codes: 1 a task without an accepted candidate, 2 bad input.
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


def summary_of(rows, name):
    """Of the ratios under `name` in every row, for each baseline and for the fastest one of each row."""
    ratios = {}
    for row in rows:
        for baseline, ratio in row.get(name, {}).items():
            ratios.setdefault(baseline, []).append(ratio)
        if row.get(name):
            ratios.setdefault("fastest", []).append(min(row[name].values()))
    return {baseline: summarize(list_) for baseline, list_ in sorted(ratios.items())}


def sanitizer_of(rows):
    """How many checks of compute-sanitizer passed, failed, or were not run."""
    counts = {}
    for row in rows:
        for check in row.get("sanitizer", {}).get("checks", []):
            counts[check["outcome"]] = counts.get(check["outcome"], 0) + 1
    return counts


def read(path):
    """The lines' provenances and rows."""
    path = path / "tasks.jsonl" if path.is_dir() else path
    try:
        reports = [json.loads(line) for line in path.read_text().splitlines()]
        return [report["provenance"] for report in reports], [row for report in reports for row in report["tasks"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"tasks_evidence: {path}: {error}", file=sys.stderr)
        sys.exit(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("results/tasks.json"))
    arguments = parser.parse_args()
    provenances, by_task = [], {}
    for path in arguments.reports:
        found, tasks = read(path)
        provenances += found
        by_task.update({row["task"]: row for row in tasks})
    if not by_task:
        print("tasks_evidence: no task is in " + ", ".join(map(str, arguments.reports)), file=sys.stderr)
        return 2
    rows = [by_task[name] for name in sorted(by_task)]
    evidence = {
        "provenance": provenances[-1],
        "accepted": sum("best" in row for row in rows),
        "count": len(rows),
        "summary": summary_of(rows, "speedups"),
        "warm_summary": summary_of(rows, "warm_speedups"),
        "sanitizer": sanitizer_of(rows),
        "tasks": rows,
    }
    arguments.output.write_text(json.dumps(evidence, indent=1) + "\n")
    for kind, summary in (("cold", "summary"), ("warm", "warm_summary")):
        for baseline, figures in evidence[summary].items():
            print(
                f"{baseline:24} {kind} {figures['tasks']:3} tasks  mean {figures['mean']:.2f}  "
                f"median {figures['median']:.2f}  max {figures['max']:.2f}  "
                f"above 1.01x {100 * figures['share_above_1.01']:.0f} %"
            )
    for outcome, count in evidence["sanitizer"].items():
        print(f"sanitizer {outcome}: {count} checks")
    print(f"{evidence['accepted']} of {evidence['count']} tasks have an accepted candidate")
    return 0 if evidence["accepted"] == evidence["count"] else 1


if __name__ == "__main__":
    sys.exit(main())

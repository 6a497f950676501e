#!/usr/bin/env python3
"""Compares the CPU target's model with evolution: how many measurements it needs to get where evolution is after its budget.

Usage: bench/cpu_policy.py WARPSMITH --model FILE [--shapes bench/shapes/cpu-held-out.txt] [--seeds 5] [--budget 60s]
                           [--tolerance 0.01] [--out results/learning/cpu.csv]
For each seed and shape, `optimize --policy evolution` runs for the budget, from nothing; then `optimize --policy model`
makes half as many measurements, from nothing. A row: shape, seed, evolution's measurements and best time, the model's
best time in half as many, and after how many measurements it was within the tolerance of evolution's best (empty: not in
half as many). Rows that the file has are kept: a run that was interrupted goes on. Run it on an otherwise idle machine.
Exit code 1 when the median of the shares of measurements is above one half, 2 for bad input.
"""
import argparse
import csv
import datetime
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["m", "n", "k", "seed", "evolution_measurements", "evolution_us", "model_us", "model_measurements", "threads",
           "machine", "date"]


def read_shapes(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [tuple(map(int, words)) for words in lines if words]


def search(cli, shape, seed, options):
    """The times of a search's measurements in their order, None for what was rejected; threads and machine."""
    with tempfile.TemporaryDirectory() as directory:
        archive = os.path.join(directory, "archive.sqlite")
        environment = dict(os.environ, WARPSMITH_DATA=directory, WARPSMITH_CACHE=os.path.join(directory, "cache"))
        command = [cli, "optimize", *map(str, shape), "--target", "cpu", "--seed", str(seed), "--archive", archive,
                   "--no-final", "--quiet", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        base = sqlite3.connect(archive)
        times = [row[0] for row in base.execute("SELECT cold_us FROM attempts WHERE kind != 'failed' ORDER BY id")]
        threads, machine = base.execute("SELECT threads, machine FROM scopes").fetchone()
        base.close()
        if not any(times):
            sys.exit(f"{' '.join(command)}: no kernel was accepted")
        return times, threads, machine


def compare(arguments, shape, seed):
    evolved, threads, machine = search(arguments.warpsmith, shape, seed,
                                       ["--policy", "evolution", "--budget", arguments.budget])
    target = min(time for time in evolved if time)
    half = (len(evolved) + 1) // 2
    written, _, _ = search(arguments.warpsmith, shape, seed,
                           ["--policy", "model", "--model", arguments.model, "--budget", arguments.budget,
                            "--candidates", str(half)])
    reached = next((i + 1 for i, time in enumerate(written) if time and time <= target * (1 + arguments.tolerance)), "")
    return dict(zip(COLUMNS, [*shape, seed, len(evolved), f"{target:.4f}", f"{min(t for t in written if t):.4f}", reached,
                              threads, machine, datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")]))


def summary(rows):
    shares = [int(row["model_measurements"]) / int(row["evolution_measurements"]) if row["model_measurements"] else float("inf")
              for row in rows]
    ratios = [float(row["evolution_us"]) / float(row["model_us"]) for row in rows]
    within = sum(share <= 0.5 for share in shares)
    median = statistics.median(shares)
    print(f"{len(rows)} searches: evolution's result reached in half its measurements {within} times; median share "
          f"{median:.3f}; evolution's best time over the model's: geometric mean {statistics.geometric_mean(ratios):.4f}")
    return median


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpsmith")
    parser.add_argument("--model", required=True)
    parser.add_argument("--shapes", type=pathlib.Path, default=ROOT / "bench/shapes/cpu-held-out.txt")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results/learning/cpu.csv")
    arguments = parser.parse_args()
    for path in [arguments.model, arguments.shapes]:
        if not os.path.isfile(path):
            print(f"cpu_policy: '{path}' is no file", file=sys.stderr)
            return 2
    rows = []
    if arguments.out.exists():
        with arguments.out.open() as lines:
            rows = list(csv.DictReader(lines))
    known = {tuple(int(row[column]) for column in COLUMNS[:4]) for row in rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(1, arguments.seeds + 1):
        for shape in read_shapes(arguments.shapes):
            if (*shape, seed) in known:
                continue
            row = compare(arguments, shape, seed)
            rows.append(row)
            with arguments.out.open("a", newline="") as lines:
                writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
                if len(rows) == 1:
                    writer.writeheader()
                writer.writerow(row)
            print(", ".join(f"{column} {row[column]}" for column in COLUMNS[:8]), flush=True)
    return 0 if summary(rows) <= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())

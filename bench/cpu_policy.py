#!/usr/bin/env python3
"""Compares the CPU target's model with evolution: how many measurements it needs to get where evolution is after its budget.

Usage: bench/cpu_policy.py WARPSMITH --model FILE [--shapes bench/shapes/cpu-held-out.txt] [--seeds 5] [--budget 60s]
                           [--tolerance 0.01] [--out results/learning/cpu.csv]
For each seed and shape, `optimize --policy evolution` runs for the budget, from nothing; then `optimize --policy model`
makes half as many measurements, from nothing. The fastest kernels of both are then timed again in turns, seven times
each: times of a search are minutes apart from the other's, and the best of many is a lucky one. A row: shape, seed,
evolution's measurements, the times of both kernels then (medians), and after how many measurements the model had found
its own where that is within the tolerance of evolution's (empty: it is not). Rows that the file has are kept: a run that
was interrupted goes on; rows of another model or machine are refused. Run it on an otherwise idle machine.
Exit code 1 when the median of the shares of measurements is above one half, 2 for bad input.
"""
import argparse
import csv
import datetime
import hashlib
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["m", "n", "k", "seed", "evolution_measurements", "evolution_us", "model_us", "model_measurements", "threads",
           "evolution_recipe", "model_recipe", "machine", "model", "date"]
TURNS = 7


def read_shapes(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return [tuple(map(int, words)) for words in lines if words]


def search(cli, shape, seed, options):
    """Recipe and time of a search's measurements in their order, time None for what was rejected; threads and machine."""
    with tempfile.TemporaryDirectory() as directory:
        archive = os.path.join(directory, "archive.sqlite")
        environment = dict(os.environ, WARPSMITH_DATA=directory, WARPSMITH_CACHE=os.path.join(directory, "cache"))
        command = [cli, "optimize", *map(str, shape), "--target", "cpu", "--seed", str(seed), "--archive", archive,
                   "--no-final", "--quiet", *options]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        base = sqlite3.connect(archive)
        tried = base.execute("SELECT recipe, cold_us FROM attempts WHERE kind != 'failed' ORDER BY id").fetchall()
        threads, machine = base.execute("SELECT threads, machine FROM scopes").fetchone()
        base.close()
        if not any(time for _, time in tried):
            sys.exit(f"{' '.join(command)}: no kernel was accepted")
        return tried, threads, machine


def fastest(tried):
    """How many measurements it took, and the recipe."""
    index = min((i for i, (_, time) in enumerate(tried) if time), key=lambda i: tried[i][1])
    return index + 1, tried[index][0]


def time_once(cli, shape, recipe):
    command = [cli, "bench", *map(str, shape), "--target", "cpu", "--recipe", recipe, "--verify", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    verdict = json.loads(done.stdout)["verdict"] if done.returncode == 0 else {}
    if verdict.get("kind") != "accepted":
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}, {verdict.get('kind')}\n{done.stderr}")
    return verdict["measurement"]["cold"]["median_us"]


def time_in_turns(cli, shape, recipes):
    """Median times of the recipes, us."""
    times = {recipe: [] for recipe in recipes}
    for turn in range(TURNS):
        for recipe in list(times)[::1 if turn % 2 == 0 else -1]:
            times[recipe].append(time_once(cli, shape, recipe))
    return [statistics.median(times[recipe]) for recipe in recipes]


def compare(arguments, shape, seed):
    evolved, threads, machine = search(arguments.warpsmith, shape, seed,
                                       ["--policy", "evolution", "--budget", arguments.budget])
    half = (len(evolved) + 1) // 2
    written, _, _ = search(arguments.warpsmith, shape, seed,
                           ["--policy", "model", "--model", arguments.model, "--budget", arguments.budget,
                            "--candidates", str(half)])
    _, evolution_recipe = fastest(evolved)
    needed, model_recipe = fastest(written)
    evolution_us, model_us = time_in_turns(arguments.warpsmith, shape, [evolution_recipe, model_recipe])
    reached = needed if model_us <= evolution_us * (1 + arguments.tolerance) else ""
    return dict(zip(COLUMNS, [*shape, seed, len(evolved), f"{evolution_us:.4f}", f"{model_us:.4f}", reached, threads,
                              evolution_recipe, model_recipe, machine, digest(arguments.model),
                              datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")]))


def digest(path):
    """Of a file, 12 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:12]


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
    others = {row.get("model") for row in rows} - {digest(arguments.model)}
    if others:
        print(f"cpu_policy: {arguments.out} has rows of model {others.pop()}, and {arguments.model} is "
              f"{digest(arguments.model)}; give another --out", file=sys.stderr)
        return 2
    known = {tuple(int(row[column]) for column in COLUMNS[:4]) for row in rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(1, arguments.seeds + 1):
        for shape in read_shapes(arguments.shapes):
            if (*shape, seed) in known:
                continue
            row = compare(arguments, shape, seed)
            if rows and (row["machine"], row["threads"]) != (rows[0]["machine"], int(rows[0]["threads"])):
                print(f"cpu_policy: {arguments.out} has rows of {rows[0]['machine']} with {rows[0]['threads']} threads, and "
                      f"this is {row['machine']} with {row['threads']}; give another --out", file=sys.stderr)
                return 2
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

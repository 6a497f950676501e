#!/usr/bin/env python3
"""Optimises every CPU evidence shape with one and with all threads and writes one JSON array.

Usage: bench/cpu_evidence.py WARPSMITH [--budget 45s] [--out results/cpu/optimize.json] [--shape MxNxK]...
An object per (shape, threads): m, n, k, threads, speedup (cold, over the fastest baseline of the same layout),
fastest_baseline, peak_share, recipe, times, machine, versions, date, commit. Rows that the file already holds are kept,
so an interrupted run goes on where it stopped; --shape (and --threads) measure their rows again. Run it on an otherwise idle machine.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def shapes():
    listed = [(512, 512, 512), (1024, 1024, 1024)]
    for line in (ROOT / "bench/shapes/cpu-weak-spots.txt").read_text().splitlines():
        line = line.split("#")[0].split()
        if line:
            listed.append(tuple(int(size) for size in line))
    return listed


def commit():
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True)
    return head.stdout.strip() or "unknown"


def optimise(cli, shape, threads, budget, directory):
    # A data directory of its own: the search starts from nothing, as for a new user.
    environment = dict(os.environ, WARPSMITH_DATA=str(directory))
    command = [cli, "optimize", *map(str, shape), "--target", "cpu", "--threads", str(threads), "--budget", budget,
               "--json", "--quiet"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)[0]


def row(result):
    keep = ["m", "n", "k", "layout", "threads", "speedup", "speedup_warm", "fastest_baseline", "speedup_any_layout",
            "peak_share", "peak_share_warm", "gflops", "time_us", "time_warm_us", "recipe", "tried", "verdicts",
            "search_seconds", "bookkeeping_ms"]
    entry = {key: result[key] for key in keep}
    machine = result["machine"]
    entry["machine"] = {key: machine[key] for key in ["name", "units", "peak_gflops", "peak_gb_per_s"]}
    entry["versions"] = machine["versions"]
    entry["baselines"] = {subject["subject"]: [subject["cold"]["median_us"], subject["warm"]["median_us"]]
                          for subject in result["conclusion"]["subjects"][1:]}
    entry["gates_passed"] = all(gate["passed"] for gate in result["conclusion"]["gates"])
    entry["date"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    entry["commit"] = commit()
    return entry


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warpsmith")
    parser.add_argument("--budget", default="45s")
    parser.add_argument("--out", default=str(ROOT / "results/cpu/optimize.json"))
    parser.add_argument("--shape", action="append", help="only this shape (MxNxK); may be repeated")
    parser.add_argument("--threads", type=int, help="only with this many threads")
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    rows = json.loads(out.read_text()) if out.exists() else []
    wanted = shapes()
    if arguments.shape:
        wanted = [tuple(int(size) for size in text.split("x")) for text in arguments.shape]
        rows = [entry for entry in rows if (entry["m"], entry["n"], entry["k"]) not in wanted
                or arguments.threads not in (None, entry["threads"])]
    cores = len(os.sched_getaffinity(0))
    counts = sorted({1, cores}) if arguments.threads is None else [arguments.threads]
    for threads in counts:
        for shape in wanted:
            if any((entry["m"], entry["n"], entry["k"], entry["threads"]) == (*shape, threads) for entry in rows):
                continue
            with tempfile.TemporaryDirectory() as directory:
                entry = row(optimise(arguments.warpsmith, shape, threads, arguments.budget, directory))
            rows.append(entry)
            partial = out.with_suffix(".tmp")
            partial.write_text(json.dumps(rows, indent=1) + "\n")
            partial.replace(out)
            print(f"{shape[0]}x{shape[1]}x{shape[2]} {threads}t: {entry['speedup']:.3f} cold, "
                  f"{entry['speedup_warm']:.3f} warm over {entry['fastest_baseline']}, "
                  f"{100 * entry['peak_share']:.1f} % of peak", flush=True)
    weak = set(shapes()[2:])
    for threads in counts:
        chosen = [entry for entry in rows if entry["threads"] == threads and (entry["m"], entry["n"], entry["k"]) in weak]
        if chosen:
            print(f"{threads} threads, {len(chosen)} weak spots: geometric mean {geomean([e['speedup'] for e in chosen]):.3f} "
                  f"cold, {geomean([e['speedup_warm'] for e in chosen]):.3f} warm")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Fills the generated parts of docs/performance.md from a replay table and a survey.

Usage: bench/performance_evidence.py REPLAY... [--offline results/h200/grid-offline.csv] [--out docs/performance.md]
REPLAY: what `warpsmith dataset replay` or `warpsmith tune --export-replay` wrote, plain or .xz; several are one. Between
`<!-- generated: NAME -->` and `<!-- end -->` the document gets
  ratios      per size bucket: ours over auto-tuned cuBLASLt, cold, warm, with dependent launch (of --offline), and in
              the other modes that stand beside it
  techniques  for each knob: the best kernel that has it over the best that has not, per bucket
  sizes       rank correlations between the best kernel's knobs and the problem's sizes
  accumulators  a section: the best kernel that sums in FP32 beside the best that sums in FP16; empty without such pairs
Intervals are 95 %: percentile bootstrap of the mean logarithm, Fisher's z for correlations.
"""
import argparse
import collections
import csv
import json
import lzma
import math
import pathlib
import random
import re
import sys

BUCKETS = [(24, "< 24"), (28, "24-28"), (32, "28-32"), (36, "32-36"), (math.inf, "≥ 36")]
RESAMPLES = 1000
FEWEST = 5  # problems that a figure needs
# Composite knobs, by position.
PARTS = {"sm90": {"tile": "mnk", "cluster": "mn", "evict": "ab"}, "sm80": {"tile": "mnk", "warps": "mn"},
         "tiny": {"tile": "mnk", "warps": "mnk"}, "skinny": {"tile": ["rows", "k"], "warps": ["rows", "k"]}}
# What counts as being without a technique; every other value of the knob is with it.
WITHOUT = {"cluster_m": "1", "cluster_n": "1", "split": "1", "persistent": "0", "streamk": "0", "pingpong": "0",
           "swap": "0", "pdl": "0", "epilogue": "direct lanes", "evict_a": "normal", "evict_b": "normal", "raster": "m",
           "reduce": "cluster", "fetch": "0", "ahead": "0", "warps_k": "1", "hint": "stream", "consumers": "1",
           "staging": "0"}
NUMBERS = ("tile_m", "tile_n", "tile_k", "stages", "split", "consumers", "group", "warps_k", "cluster_m", "cluster_n")


def bucket(mnk):
    return next(name for edge, name in BUCKETS if math.log2(mnk) < edge)


def knobs_of(recipe):
    family, *words = recipe.split()
    knobs = {}
    for word in words:
        name, _, value = word.partition("=")
        parts = PARTS.get(family, {}).get(name)
        values = value.split("x") if parts else [value]
        if parts and len(values) == len(parts):
            knobs.update({f"{name}_{part}": each for part, each in zip(parts, values)})
        else:
            knobs[name] = value
    return family, knobs


class Problem:
    def __init__(self, text):
        words = text.split()
        self.m, self.n, self.k = map(int, words[0].split("x"))
        self.layout, self.element, self.accumulator = (words[1:4] + ["nn", "f16", "f32"][len(words) - 1:])[:3]
        self.mnk = self.m * self.n * self.k
        self.times = {}  # by recipe, us


def read_replays(paths):
    problems = {}
    for path in paths:
        opened = lzma.open(path, "rt") if path.suffix == ".xz" else path.open()
        with opened as lines:
            header = json.loads(next(lines))
            if "warpsmith_replay" not in header:
                sys.exit(f"performance_evidence: {path} is no replay table")
            for line in lines:
                entry = json.loads(line)
                if entry["kind"] != "accepted" or not entry.get("cold_us"):
                    continue
                problem = problems.setdefault(entry["problem"], Problem(entry["problem"]))
                known = problem.times.get(entry["recipe"], math.inf)
                problem.times[entry["recipe"]] = min(known, entry["cold_us"])
    return list(problems.values())


def interval(logs):
    """Geometric mean of the ratios whose logarithms these are, and its interval."""
    mean = sum(logs) / len(logs)
    drawn = random.Random(1)
    means = sorted(sum(drawn.choices(logs, k=len(logs))) / len(logs) for _ in range(RESAMPLES))
    return math.exp(mean), math.exp(means[int(0.025 * RESAMPLES)]), math.exp(means[int(0.975 * RESAMPLES) - 1])


def ratio_cell(logs):
    if len(logs) < FEWEST:
        return f"– ({len(logs)})"
    mean, low, high = interval(logs)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}] ({len(logs)})"


def by_bucket(pairs):
    """pairs: (mnk, logarithm). Cells for all and for each bucket."""
    groups = collections.defaultdict(list)
    for mnk, value in pairs:
        groups["all"].append(value)
        groups[bucket(mnk)].append(value)
    return [ratio_cell(groups[name]) for name in ["all"] + [name for _, name in BUCKETS]]


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def techniques(problems):
    found = collections.defaultdict(list)
    for problem in problems:
        best = {}  # (family, knob, with) -> us
        for recipe, time_us in problem.times.items():
            family, knobs = knobs_of(recipe)
            for name, value in knobs.items():
                if name not in WITHOUT:
                    continue
                key = (family, name, value not in WITHOUT[name].split())
                best[key] = min(best.get(key, math.inf), time_us)
        for family, name, has in list(best):
            if has and (family, name, False) in best:
                gain = math.log(best[family, name, False] / best[family, name, True])
                found[family, name].append((problem.mnk, gain))
    rows = [[f"`{family}` {name}"] + by_bucket(pairs) for (family, name), pairs in sorted(found.items())]
    return table(["technique", "all"] + [name for _, name in BUCKETS], rows)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for i in range(start, end + 1):
            result[order[i]] = (start + end) / 2
        start = end + 1
    return result


def spearman(x, y):
    """None for a constant side."""
    rx, ry = ranks(x), ranks(y)
    mx, my = sum(rx) / len(rx), sum(ry) / len(ry)
    sxx = sum((a - mx) ** 2 for a in rx)
    syy = sum((b - my) ** 2 for b in ry)
    if sxx == 0 or syy == 0:
        return None
    return sum((a - mx) * (b - my) for a, b in zip(rx, ry)) / math.sqrt(sxx * syy)


def correlation_cell(x, y):
    r = spearman(x, y) if len(x) > FEWEST else None
    if r is None:
        return "–"
    z, width = math.atanh(max(-0.999999, min(0.999999, r))), 1.96 / math.sqrt(len(x) - 3)
    return f"{r:+.2f} [{math.tanh(z - width):+.2f}, {math.tanh(z + width):+.2f}]"


def sizes(problems):
    best = collections.defaultdict(list)  # by family: (problem, knobs) of the fastest recipe
    for problem in problems:
        family, knobs = knobs_of(min(problem.times, key=problem.times.get))
        best[family].append((problem, knobs))
    rows = []
    for family, winners in sorted(best.items()):
        for name in NUMBERS:
            pairs = [(p, float(knobs[name])) for p, knobs in winners if knobs.get(name, "").isdigit()]
            values = [value for _, value in pairs]
            if len(pairs) <= FEWEST or len(set(values)) < 2:
                continue
            of = [[math.log2(size(p)) for p, _ in pairs]
                  for size in (lambda p: p.m, lambda p: p.n, lambda p: p.k, lambda p: p.mnk)]
            rows.append([f"`{family}` {name}", str(len(pairs))] + [correlation_cell(values, each) for each in of])
    return table(["best kernel's knob", "problems", "with log2 m", "log2 n", "log2 k", "log2 mnk"], rows)


def accumulators(problems):
    pairs = collections.defaultdict(dict)
    for problem in problems:
        recipe = min(problem.times, key=problem.times.get)
        key = (problem.m, problem.n, problem.k, problem.layout, problem.element)
        pairs[key][problem.accumulator] = (problem.times[recipe], recipe, problem.mnk, problem.times)
    both = {key: each for key, each in pairs.items() if len(each) == 2}
    if not both:
        return ""
    logs = [(each["f32"][2], math.log(each["f32"][0] / each["f16"][0])) for each in both.values()]
    alike = [(each["f32"][2], math.log(each["f32"][3][recipe] / each["f16"][3][recipe]))
             for each in both.values() for recipe in sorted(each["f32"][3].keys() & each["f16"][3].keys())]
    summary = table(["FP32's time over FP16's", "all"] + [name for _, name in BUCKETS],
                    [["best kernels"] + by_bucket(logs), ["pairs of the same recipe"] + by_bucket(alike)])
    rows = [[f"{m}×{n}×{k} {layout}", f"{each['f32'][0]:.2f}", f"{each['f16'][0]:.2f}",
             f"{each['f32'][0] / each['f16'][0]:.3f}", f"`{short(each['f32'][1])}`", f"`{short(each['f16'][1])}`"]
            for (m, n, k, layout, _), each in sorted(both.items(), key=lambda item: item[1]["f32"][2])]
    tried = {kind: sorted(len(each[kind][3]) for each in both.values()) for kind in ("f32", "f16")}
    heading = ("## FP32 beside FP16 sums\nFP16 accumulation is never a substitute: it is a separate problem, labelled so, "
               "and its results are coarser. The two sides were tuned in different runs, with {f32} and {f16} recipes a problem (medians): "
               "ratios below 1 tell of the search.\n\n").format(**{kind: counts[len(counts) // 2] for kind, counts in tried.items()})
    return heading + summary + "\n\n" + table(["problem", "FP32 µs", "FP16 µs", "ratio", "FP32's kernel", "FP16's kernel"], rows)


def short(recipe):
    return " ".join(recipe.split()[:6])


def read_survey(path):
    """The rows of one of a survey's files and what its header says."""
    lines = path.read_text().splitlines()
    header = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    header["shapes"] = next((line[2:] for line in lines if re.fullmatch(r"# \d+ of \d+ shapes", line)), "")
    return list(csv.DictReader(line for line in lines if not line.startswith("#"))), header


def ratios(path):
    rows, header = read_survey(path)
    pairs = [("cold", "lt_auto_us", "ours_us"), ("cold, NN over NN", "lt_auto_nn_us", "ours_nn_us"),
             ("cold, TN over TN", "lt_auto_tn_us", "ours_tn_us"), ("warm", "lt_auto_warm_us", "ours_warm_us"),
             ("cold, dependent launch", "lt_auto_us", "ours_pdl_us"), ("cold, over cuBLASLt's first choice", "lt_heuristic_us", "ours_us"),
             ("cold, over cuBLAS", "cublas_us", "ours_us")]
    parts = [(rows, *pair) for pair in pairs]
    for mode, name in [("call", "single calls"), ("server", "single calls after idling")]:
        beside = path.with_name(path.name.replace("offline", mode))
        if beside != path and beside.exists():
            parts.append((read_survey(beside)[0], name, "lt_auto_us", "ours_us"))
    result = []
    for measured, name, theirs, ours in parts:
        logs = [(int(r["m"]) * int(r["n"]) * int(r["k"]), math.log(float(r[theirs]) / float(r[ours])))
                for r in measured if r[theirs] and r[ours]]
        if logs:
            result.append([name] + by_bucket(logs))
    counts = re.match(r"(\d+) of (\d+)", header["shapes"])
    unfinished = ", the smaller ones first" if counts and counts[1] != counts[2] else ""
    caption = (f"{header['shapes']}{unfinished}; {header['device']}, driver {header['driver']}, cuBLAS {header['cublas']}, "
               f"{header['date'].split(' to ')[-1][:10]}.")
    return caption + "\n\n" + table(["ratio", "all"] + [name for _, name in BUCKETS], result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replays", nargs="+", type=pathlib.Path, metavar="REPLAY")
    parser.add_argument("--offline", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/performance.md"))
    arguments = parser.parse_args()
    problems = read_replays(arguments.replays)
    wide = [problem for problem in problems if problem.accumulator == "f32"]
    parts = {"techniques": techniques(wide), "sizes": sizes(wide), "accumulators": accumulators(problems)}
    if arguments.offline:
        parts["ratios"] = ratios(arguments.offline)
    text = arguments.out.read_text()
    for name, part in parts.items():
        pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            sys.exit(f"performance_evidence: {arguments.out} has no part '{name}'")
        text = pattern.sub(lambda match, part=part: match[1] + (part + "\n" if part else "") + match[2], text)
    arguments.out.write_text(text)
    print(f"{arguments.out}: {len(wide)} problems, {sum(len(p.times) for p in problems)} accepted measurements")


if __name__ == "__main__":
    main()

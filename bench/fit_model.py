#!/usr/bin/env python3
"""Fits the performance model's coefficients to measurements and writes src/model/coefficients_h200.cpp.

Usage: bench/fit_model.py REPLAY [--steps 10000] [--seed 1] [--out src/model/coefficients_h200.cpp] [--report FILE]
REPLAY is a table of `warpsmith tune --export-replay` or `warpsmith dataset replay`. Needs nothing but Python and
warpsmith-model-loss (target of that name; --program says where it is). One fifth of the shapes, chosen by a hash of
their sizes, is held out: the coefficients that are written never saw them, and the error report is about them.

What is minimised is the mean over problems (those of a bucket of log2(MNK) weighted by the inverse square root of their
number) of log(expected / best): best is the fastest time measured, expected the geometric mean of what the model would
choose between (recipes that it finds x times as slow as its first count by x^-30). Added are a share of the model's own
error, so that times mean something, and a weak pull to the physically reasoned values, so that coefficients that the
data say nothing about stay plausible. The search is a separable evolution strategy (CMA-ES with a diagonal covariance)
on the logarithms of the coefficients, inside their bounds, and a coordinate search at its end.
"""
import argparse
import collections
import datetime
import hashlib
import json
import math
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ERROR_SHARE = 0.15  # of the spread of log(model / measured) in the loss
PULL = 0.0005       # per coefficient, times the square of its distance from the reasoned value in log units
DENSE = 100         # recipes of a problem: the report shows those apart, since choosing among few is easy
BUCKETS = ((24, "< 24"), (28, "24-28"), (32, "28-32"), (36, "32-36"), (99, ">= 36"))


class Judge:
    """warpsmith-model-loss, kept running."""

    def __init__(self, program, replay, recipes=None):
        command = [program, replay] + ([str(recipes)] if recipes else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(self.process.wait())
        self.facts = json.loads(line)

    def __call__(self, coefficients):
        self.process.stdin.write(json.dumps(coefficients) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["problems"]


def shapes_of(path):
    lines = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {tuple(map(int, words)) for words in lines if words}


# Policies are compared on these, the model's ranking among them.
COMPARED = shapes_of(ROOT / "bench/shapes/held-out.txt")


def held_out(problem):
    if (problem["m"], problem["n"], problem["k"]) in COMPARED:
        return True
    digest = hashlib.sha256("{m}x{n}x{k}".format(**problem).encode()).digest()
    return digest[0] % 5 == 0


def bucket(problem):
    size = math.log2(problem["m"] * problem["n"] * problem["k"])
    return next(name for edge, name in BUCKETS if size < edge)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else float("nan")


class Fit:
    def __init__(self, judge, seed):
        self.judge = judge
        self.problems = judge.facts["problems"]
        self.table = judge.facts["coefficients"]
        self.training = [i for i, problem in enumerate(self.problems) if not held_out(problem)]
        # Buckets differ in size a lot: one counts by the square root of its problems.
        sizes = collections.Counter(bucket(self.problems[i]) for i in self.training)
        self.weights = {i: sizes[bucket(self.problems[i])] ** -0.5 for i in self.training}
        self.random = random.Random(seed)
        self.low = [math.log(c["least"]) for c in self.table]
        self.high = [math.log(c["most"]) for c in self.table]
        self.reasoned = [self.clip(i, math.log(c["reasoned"])) for i, c in enumerate(self.table)]
        self.evaluations = 0

    def use(self, judge):
        """Another judge of the same problems."""
        self.judge, self.problems = judge, judge.facts["problems"]

    def clip(self, i, value):
        return min(self.high[i], max(self.low[i], value))

    def values(self, point):
        return {c["name"]: math.exp(self.clip(i, x)) for i, (c, x) in enumerate(zip(self.table, point))}

    def loss(self, point):
        rows = self.judge(self.values(point))
        self.evaluations += 1
        weights = sum(self.weights.values())
        regret, error, bias = (sum(w * term(rows[i]) for i, w in self.weights.items()) / weights
                               for term in (lambda row: math.log(row[3] / row[0]), lambda row: row[5], lambda row: row[4]))
        outside = sum((x - self.clip(i, x)) ** 2 for i, x in enumerate(point))
        pull = sum((self.clip(i, x) - r) ** 2 for i, (x, r) in enumerate(zip(point, self.reasoned)))
        return regret + ERROR_SHARE * (error + abs(bias)) + PULL * pull + 0.02 * outside

    def search(self, start, steps, sigma=0.25):
        """sep-CMA-ES after Ros and Hansen (2008)."""
        size = len(start)
        population = 4 + int(3 * math.log(size))
        parents = population // 2
        weights = [math.log(parents + 0.5) - math.log(i + 1) for i in range(parents)]
        weights = [w / sum(weights) for w in weights]
        effective = 1 / sum(w * w for w in weights)
        c_sigma = (effective + 2) / (size + effective + 5)
        damping = 1 + 2 * max(0, math.sqrt((effective - 1) / (size + 1)) - 1) + c_sigma
        c_path = (4 + effective / size) / (size + 4 + 2 * effective / size)
        c_rank1 = 2 / ((size + 1.3) ** 2 + effective)
        c_rank_mu = min(1 - c_rank1, 2 * (effective - 2 + 1 / effective) / ((size + 2) ** 2 + effective))
        c_rank1, c_rank_mu = (min(0.45, c * (size + 2) / 3) for c in (c_rank1, c_rank_mu))
        expected_norm = math.sqrt(size) * (1 - 1 / (4 * size) + 1 / (21 * size * size))
        center, variance = list(start), [1.0] * size
        path_sigma, path = [0.0] * size, [0.0] * size
        best, best_loss = list(start), self.loss(start)
        last = self.evaluations + steps
        generation = 0
        while self.evaluations < last:
            generation += 1
            tries = []
            for _ in range(population):
                z = [self.random.gauss(0, 1) for _ in range(size)]
                x = [c + sigma * math.sqrt(v) * zi for c, v, zi in zip(center, variance, z)]
                tries.append((self.loss(x), x, z))
            tries.sort(key=lambda each: each[0])
            if tries[0][0] < best_loss:
                best_loss, best = tries[0][0], list(tries[0][1])
            z_mean = [sum(w * t[2][i] for w, t in zip(weights, tries)) for i in range(size)]
            center = [c + sigma * math.sqrt(v) * z for c, v, z in zip(center, variance, z_mean)]
            center = [self.clip(i, c) for i, c in enumerate(center)]
            path_sigma = [(1 - c_sigma) * p + math.sqrt(c_sigma * (2 - c_sigma) * effective) * z
                          for p, z in zip(path_sigma, z_mean)]
            norm = math.sqrt(sum(p * p for p in path_sigma))
            steady = norm / math.sqrt(1 - (1 - c_sigma) ** (2 * generation)) < (1.4 + 2 / (size + 1)) * expected_norm
            path = [(1 - c_path) * p + steady * math.sqrt(c_path * (2 - c_path) * effective) * math.sqrt(v) * z
                    for p, v, z in zip(path, variance, z_mean)]
            variance = [(1 - c_rank1 - c_rank_mu) * v + c_rank1 * p * p
                        + c_rank_mu * v * sum(w * t[2][i] ** 2 for w, t in zip(weights, tries))
                        for i, (v, p) in enumerate(zip(variance, path))]
            sigma *= math.exp(c_sigma / damping * (norm / expected_norm - 1))
            if generation % 20 == 0:
                print(f"  {self.evaluations:6d} evaluations, loss {best_loss:.4f}, step {sigma:.3f}", file=sys.stderr)
        return best, best_loss

    def polish(self, point, best_loss):
        """One coefficient after another, in smaller and smaller steps."""
        for step in (0.3, 0.15, 0.07):
            for i in self.random.sample(range(len(point)), len(point)):
                for change in (step, -step):
                    other = list(point)
                    other[i] = self.clip(i, point[i] + change)
                    loss = self.loss(other)
                    if loss < best_loss:
                        point, best_loss = other, loss
                        break
            print(f"  {self.evaluations:6d} evaluations, loss {best_loss:.4f}, step {step}", file=sys.stderr)
        return point, best_loss

    def report(self, values, indices):
        """Per bucket: problems, recipes, ratio of best to first choice, to the best of the first 16, error."""
        rows = self.judge(values)
        result = []
        for name in ["all"] + [name for _, name in BUCKETS]:
            chosen = [i for i in indices if name in ("all", bucket(self.problems[i]))]
            if not chosen:
                continue
            result.append({
                "log2_mnk": name,
                "problems": len(chosen),
                "recipes": sum(self.problems[i]["recipes"] for i in chosen),
                "best_over_first": math.exp(mean(math.log(rows[i][0] / rows[i][1]) for i in chosen)),
                "best_over_top16": math.exp(mean(math.log(rows[i][0] / rows[i][2]) for i in chosen)),
                "worst_first": min(rows[i][0] / rows[i][1] for i in chosen),
                "bias": mean(rows[i][4] for i in chosen),
                "error": mean(rows[i][5] for i in chosen)})
        return result


def print_report(title, rows):
    print(f"{title}\n  log2(MNK)  problems  recipes  best/first  best/top 16  worst first    bias   error")
    for row in rows:
        print("  {log2_mnk:9s}  {problems:8d}  {recipes:7d}  {best_over_first:10.3f}  {best_over_top16:11.3f}"
              "  {worst_first:11.3f}  {bias:+.3f}  {error:6.3f}".format(**row))


def source_text(values, table, facts, reports, arguments):
    total, held = reports["trained"][0], reports["held out"][0]
    lines = [
        f"// Coefficients fitted to an {facts['machine']} by bench/fit_model.py (seed {arguments.seed}, {arguments.steps}"
        f" steps, {datetime.date.today()}).",
        f"// {total['problems']} problems with {total['recipes']} recipes were trained on; over {held['problems']} held out, "
        "the geometric mean of",
        f"// the best measured time over that of the model's first choice is {held['best_over_first']:.3f}, over the best of "
        f"its first 16 {held['best_over_top16']:.3f}.",
        '#include "model/coefficients.h"', "", "namespace warpsmith::model {", "",
        "Coefficients h200_coefficients() {", "  return {"]
    lines += [f"      .{c['name']} = {values[c['name']]:.4g}," for c in table]
    return "\n".join(lines + ["  };", "}", "", "}  // namespace warpsmith::model", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replay")
    parser.add_argument("--steps", type=int, default=10000, help="evaluations of the loss, and about 300 at the end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recipes", type=int, default=60,
                        help="of each problem, at most so many are fitted to: the fastest half, others evenly over the rest")
    parser.add_argument("--program", default=str(ROOT / "build/test/bin/warpsmith-model-loss"))
    parser.add_argument("--out", default=str(ROOT / "src/model/coefficients_h200.cpp"))
    parser.add_argument("--report", help="error report as JSON")
    parser.add_argument("--check", action="store_true", help="report on the present coefficients, fit nothing")
    arguments = parser.parse_args()
    fit = Fit(Judge(arguments.program, arguments.replay, arguments.recipes), arguments.seed)
    outside = [i for i, problem in enumerate(fit.problems) if held_out(problem)]
    values = {c["name"]: c["value"] for c in fit.table}
    if not arguments.check:
        reasoned = fit.report({c["name"]: c["reasoned"] for c in fit.table}, range(len(fit.problems)))
        print_report("physically reasoned values, all problems", reasoned)
        point, _ = fit.polish(*fit.search(fit.reasoned, arguments.steps))
        values = {name: float(f"{value:.4g}") for name, value in fit.values(point).items()}
    fit.use(Judge(arguments.program, arguments.replay))  # all recipes
    dense = [i for i, problem in enumerate(fit.problems) if problem["recipes"] >= DENSE]
    reports = {"trained": fit.report(values, fit.training), "held out": fit.report(values, outside),
               f"problems with {DENSE} recipes and more": fit.report(values, dense),
               "of these, held out": fit.report(values, [i for i in dense if i in set(outside)])}
    for title, rows in reports.items():
        if rows:
            print_report(title, rows)
    if arguments.report:
        digest = hashlib.sha256(pathlib.Path(arguments.replay).read_bytes()).hexdigest()
        facts = {"machine": fit.judge.facts["machine"], "date": str(datetime.date.today()), "replay_sha256": digest,
                 "problems": len(fit.problems), "recipes": sum(problem["recipes"] for problem in fit.problems)}
        pathlib.Path(arguments.report).write_text(json.dumps({**facts, "agreement": reports}, indent=1) + "\n")
    if not arguments.check:
        pathlib.Path(arguments.out).write_text(source_text(values, fit.table, fit.judge.facts, reports, arguments))


if __name__ == "__main__":
    main()

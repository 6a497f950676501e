#!/usr/bin/env python3
"""Opponents of the learnt policy on the held-out problems of a replay table: Kernel Tuner's search strategies in its
simulation mode, and gradient-boosted trees trained on the other problems' rows.

    python3 -m pip install kernel-tuner scikit-learn numpy
    bench/learning_opponents.py --replay TABLE.jsonl --warpsmith build/test/bin/warpsmith --out opponents.csv

Writes arm,seed,problem,n,fraction_of_best, the rows of `warpsmith train --evaluate --csv`, which takes them with
--add-csv. A strategy's order of first evaluations counts; after its last, its best so far stands. Kernel Tuner's search
space is exactly the recorded recipes: they are given to it as a cache, and nothing outside can be asked for."""
import argparse
import concurrent.futures
import contextlib
import csv
import hashlib
import io
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import warnings

COUNTS = [1, 4, 16, 64, 256]
# Kernel Tuner's own strategies that take no further package; brute_force, whose order is the table's, is left out.
STRATEGIES = ["random_sample", "genetic_algorithm", "simulated_annealing", "greedy_ils", "greedy_mls", "mls", "pso",
              "firefly_algorithm", "diff_evo", "basinhopping", "dual_annealing", "minimize", "ordered_greedy_mls"]


# A strategy that asks so often for what it knows has ended: some never end on a space that they have exhausted.
IDLE_QUESTIONS = 5_000
# One that asks for nothing at all in so long hangs; that depends on the machine, so it is reported.
HUNG_SECONDS = 120


class Ended(BaseException):
    """A strategy finds nothing new."""


class Hung(BaseException):
    """A strategy asks for nothing."""


def hung(*_):
    raise Hung


signal.signal(signal.SIGALRM, hung)


def load(path):
    """Header and rows by problem: {problem: [(recipe, time in us or None)]}."""
    rows = {}
    with open(path, encoding="utf-8") as lines:
        header = json.loads(next(lines))
        for line in lines:
            if line.strip():
                row = json.loads(line)
                # What is too slow has passed the gates.
                time_us = row.get("cold_us") if row["kind"] in ("accepted", "too-slow") else None
                rows.setdefault(row["problem"], []).append((row["recipe"], time_us))
    return header, {p: r for p, r in rows.items() if any(t for _, t in r)}


def held_out(header, rows, share):
    """As the program chooses them: declared in the header, or a share of the shapes by the same hash."""
    if header.get("held_out"):
        return [p for p in header["held_out"] if p in rows]
    chosen = []
    for problem in rows:
        m, n, k = problem.split()[0].split("x")
        digest = hashlib.sha256(f"held out {m} {n} {k}".encode()).digest()
        if int.from_bytes(digest[:8], "big") % 1000000 < share * 1e6:
            chosen.append(problem)
    return chosen


def fractions(times, best):
    """Fraction of the best known speed after each of COUNTS evaluations; times: in order, None where rejected."""
    out, fastest = {}, None
    for n in range(1, COUNTS[-1] + 1):
        if n <= len(times) and times[n - 1] and (fastest is None or times[n - 1] < fastest):
            fastest = times[n - 1]
        if n in COUNTS:
            out[n] = best / fastest if fastest else 0.0
    return out


class KernelTuner:
    """Runs a strategy on one problem's cache file."""

    def __init__(self, cache_file):
        import kernel_tuner.interface as interface
        from kernel_tuner.searchspace import Searchspace
        from kernel_tuner.util import infer_args_from_cache, read_cache
        self.interface, self.cache_file = interface, cache_file
        self.cache = read_cache(cache_file, open_cache=False)
        self.arguments = infer_args_from_cache(self.cache)
        self.keys = self.cache["tune_params_keys"]
        # The space is what was recorded, not the product of all values.
        interface.Searchspace = lambda *_, **__: Searchspace(None, None, None, from_cache=self.cache)
        # What is evaluated is noted as it happens. Questions are counted where strategies ask them: an answer that is
        # known does not reach the runner.
        from kernel_tuner.runners.simulation import SimulationRunner
        from kernel_tuner.strategies.common import CostFunc
        self.evaluated, self.seen, self.idle = [], set(), 0
        if not hasattr(CostFunc, "plain_call"):
            CostFunc.plain_call = CostFunc.__call__

        def ask(cost, *arguments, **named):
            self.idle += 1
            if self.idle > IDLE_QUESTIONS:
                raise Ended
            return cost.plain_call(*arguments, **named)

        CostFunc.__call__ = ask
        if not hasattr(SimulationRunner, "plain_run"):
            SimulationRunner.plain_run = SimulationRunner.run

        def run(runner, parameter_space, tuning_options):
            results = runner.plain_run(parameter_space, tuning_options)
            for result in filter(None, results):
                key = tuple(result[k] for k in self.keys)
                if key in self.seen:
                    continue
                self.seen.add(key)
                self.evaluated.append(result)
                self.idle = 0
                signal.setitimer(signal.ITIMER_REAL, HUNG_SECONDS)
            return results

        SimulationRunner.run = run

    def run(self, strategy, seed):
        """Times in us of the first evaluations, in order; None where rejected. Error: TimeoutError where it hangs."""
        import numpy
        random.seed(seed)
        numpy.random.seed(seed)
        self.evaluated, self.seen, self.idle = [], set(), 0
        signal.setitimer(signal.ITIMER_REAL, HUNG_SECONDS)
        try:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.interface.tune_kernel(
                    **self.arguments, cache=self.cache_file, simulation_mode=True, strategy=strategy,
                    strategy_options={"max_fevals": COUNTS[-1]}, quiet=True, verbose=False)
        except Ended:
            pass
        except Hung:
            raise TimeoutError(f"asked for nothing in {HUNG_SECONDS} s") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        times = []
        for result in self.evaluated:
            time = result["time"]
            times.append(1e3 * time if isinstance(time, (int, float)) and math.isfinite(time) else None)
        if not times:
            raise RuntimeError("evaluated nothing")
        return times


def features(problem, recipe):
    """Numbers of a problem and a recipe for the trees: log2 sizes, layout, and every number and word of the recipe."""
    sizes, layout = problem.split()[0].split("x"), problem.split()[1]
    row = {f"size{i}": math.log2(int(s)) for i, s in enumerate(sizes)}
    row["layout"] = ["tn", "nn", "tt", "nt"].index(layout)
    family, *knobs = recipe.split()
    row["family." + family] = 1.0
    for knob in knobs:
        name, value = knob.split("=", 1)
        parts = value.split("x") if re.fullmatch(r"[0-9]+(x([0-9]+|all))*|all(x([0-9]+|all))*", value) else [value]
        for i, part in enumerate(parts):
            if part.isdigit():
                row[f"{family}.{name}{i}"] = math.log2(1 + int(part))
            else:
                row[f"{family}.{name}{i}={part}"] = 1.0
    return row


def boosted_trees(rows, training, problems, seed):
    """{problem: times in the order that the trees predict}; they learn log(time / best of the problem)."""
    import numpy
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.feature_extraction import DictVectorizer
    taught, targets = [], []
    for problem in training:
        best = min(t for _, t in rows[problem] if t)
        for recipe, time_us in rows[problem]:
            taught.append(features(problem, recipe))
            targets.append(min(math.log(time_us / best), 3.0) if time_us else 3.0)
    vectorizer = DictVectorizer(sparse=False, dtype=numpy.float32)
    model = HistGradientBoostingRegressor(max_iter=300, learning_rate=0.1, random_state=seed)
    model.fit(vectorizer.fit_transform(taught), numpy.array(targets))
    orders = {}
    for problem in problems:
        predicted = model.predict(vectorizer.transform([features(problem, r) for r, _ in rows[problem]]))
        orders[problem] = [rows[problem][i][1] for i in numpy.argsort(predicted, kind="stable")]
    return orders


def strategies_on(problem, options, best):
    """Rows of Kernel Tuner's strategies on one problem, and what failed: {strategy: why}."""
    rows, failed = [], {}
    with tempfile.TemporaryDirectory() as folder:
        cache_file = os.path.join(folder, "cache.json")
        subprocess.run([options.warpsmith, "dataset", "kernel-tuner", "--replay", options.replay, "--problem", problem,
                        "--out", cache_file], check=True, stdout=subprocess.DEVNULL)
        tuner = KernelTuner(cache_file)
        for strategy in filter(None, options.strategies.split(",")):
            for seed in range(1, options.seeds + 1):
                try:
                    times = tuner.run(strategy, seed)
                except Exception as error:  # one strategy's failure is reported and costs no other
                    failed.setdefault(strategy, f"{type(error).__name__}: {error}")
                    continue
                rows += rows_of(f"kernel-tuner/{strategy}", seed, problem, times, best)
    return rows, failed


def rows_of(arm, seed, problem, times, best):
    return [[arm, seed, problem, n, f"{fraction:.6f}"] for n, fraction in fractions(times, best).items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", required=True)
    parser.add_argument("--warpsmith", default="build/release/bin/warpsmith")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--held-out-share", type=float, default=0.12)
    parser.add_argument("--smallest-space", type=int, default=1500)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--no-trees", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="problems at a time")
    options = parser.parse_args()

    header, rows = load(options.replay)
    excluded = held_out(header, rows, options.held_out_share)
    declared = header.get("declared", {})  # fewer rows than that: not measured whole
    problems = [p for p in excluded if len(rows[p]) >= max(options.smallest_space, declared.get(p, 0))]
    if not problems:
        sys.exit(f"learning_opponents.py: no held-out problem has {options.smallest_space} recorded recipes")
    best = {p: min(t for _, t in rows[p] if t) for p in problems}
    out = []

    if not options.no_trees:
        shapes = {p.split()[0] for p in excluded}  # held out in all layouts
        training = [p for p in rows if p.split()[0] not in shapes]
        for seed in range(1, options.seeds + 1):
            for problem, times in boosted_trees(rows, training, problems, seed).items():
                out += rows_of("boosted-trees", seed, problem, times, best[problem])
    failed = {}
    # A process each: Kernel Tuner keeps much to itself, and alarms reach main threads only.
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(strategies_on, p, options, best[p]) for p in problems]
        for done in waiting:
            more, reasons = done.result()
            out += more
            failed = {**reasons, **failed}
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["arm", "seed", "problem", "n", "fraction_of_best"])
        writer.writerows(out)
    for strategy, why in failed.items():
        print(f"learning_opponents.py: {strategy} failed and is left out where it did: {why}", file=sys.stderr)
    print(f"{options.out}: {len(out)} rows, {len(problems)} problems")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Plots of the learning comparison, as SVG, from rows arm,seed,problem,n,fraction_of_best and from training logs.

    bench/learning_plots.py --csv ablation.csv [--csv opponents.csv] [--log run/log.jsonl] --out results/learning

Writes ablation.svg (mean fraction of the best known speed by n, with 95 % bootstrap intervals over problems) and, for
each log, curve-N.svg (reward, legality, best fraction by step). Needs nothing but Python."""
import argparse
import collections
import csv
import json
import math
import pathlib
import random
from xml.sax.saxutils import escape

COLOURS = ["#1b6ca8", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#3aa6a6", "#7a5230", "#b0446f", "#5a6b7b", "#95a300"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 460, 64, 250, 30, 46


def interval(values, resamples=2000):
    """Percentile bootstrap of the mean, with a fixed seed."""
    generator = random.Random(1)
    means = sorted(sum(generator.choices(values, k=len(values))) / len(values) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


class Plot:
    """A frame with a linear y axis and a linear or logarithmic x axis."""

    def __init__(self, title, xs, low, high, logarithmic, x_label, y_label):
        self.x_low, self.x_high, self.low, self.high, self.logarithmic = min(xs), max(xs), low, high, logarithmic
        self.body = [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>']
        ticks = sorted(set(xs)) if len(set(xs)) <= 8 else [self.x_low + i * (self.x_high - self.x_low) / 5 for i in range(6)]
        for x in ticks:
            self.body.append(f'<text x="{self.x(x):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:g}</text>')
        for i in range(6):
            y = low + i * (high - low) / 5
            self.body.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(y):.1f}" y2="{self.y(y):.1f}" stroke="#ddd"/>')
            self.body.append(f'<text x="{LEFT - 8}" y="{self.y(y) + 4:.1f}" text-anchor="end">{y:.3g}</text>')
        self.body.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
        self.body.append(f'<text transform="translate(16,{HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
        self.lines = 0

    def x(self, value):
        low, high = self.x_low, self.x_high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - RIGHT - LEFT)

    def y(self, value):
        return HEIGHT - BOTTOM - (value - self.low) / ((self.high - self.low) or 1) * (HEIGHT - TOP - BOTTOM)

    def add(self, name, points, intervals=None):
        colour = COLOURS[self.lines % len(COLOURS)]
        dashes = ' stroke-dasharray="5 3"' if self.lines >= len(COLOURS) else ""
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for x, (low, high) in (intervals or {}).items():
            self.body.append(f'<line x1="{self.x(x):.1f}" x2="{self.x(x):.1f}" y1="{self.y(low):.1f}" y2="{self.y(high):.1f}" stroke="{colour}"/>')
        y = TOP + 16 * self.lines
        self.body.append(f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 40}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"{dashes}/>')
        self.body.append(f'<text x="{WIDTH - RIGHT + 46}" y="{y + 4}">{escape(name)}</text>')
        self.lines += 1

    def save(self, path):
        height = max(HEIGHT, TOP + 16 * self.lines + 10)
        path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" '
                        f'font-size="12"><rect width="100%" height="100%" fill="white"/>' + "".join(self.body) + "</svg>\n")


def plot_ablation(files, path):
    seeds = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for file in files:
        with open(file, newline="", encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                seeds[row["arm"]][int(row["n"])][row["problem"]].append(float(row["fraction_of_best"]))
    means = {arm: {n: [sum(v) / len(v) for v in problems.values()] for n, problems in by_n.items()} for arm, by_n in seeds.items()}
    mean = {arm: {n: sum(v) / len(v) for n, v in by_n.items()} for arm, by_n in means.items()}
    counts = sorted({n for by_n in mean.values() for n in by_n})
    low = min(v for by_n in mean.values() for v in by_n.values())
    plot = Plot("Fraction of the best known speed, held-out problems", counts, math.floor(10 * low) / 10, 1, True, "measurements",
                "mean over problems, 95 % bootstrap")
    for arm in sorted(mean, key=lambda a: -mean[a][counts[0]]):
        plot.add(arm, sorted(mean[arm].items()), {n: interval(v) for n, v in means[arm].items()})
    plot.save(path)


def plot_log(file, path):
    with open(file, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    rows = [r for r in rows if "reward_mean" in r]
    if not rows:
        return False
    names = [n for n in ("reward_mean", "legal_fraction", "accepted_fraction", "mean_fraction_of_best", "best_fraction", "kl")
             if any(n in r for r in rows)]
    values = [r[n] for r in rows for n in names if n in r]
    plot = Plot(f"{file}: by step", list(range(1, len(rows) + 1)), min(0, *values), max(1, *values), False, "step", "value")
    for name in names:
        plot.add(name, [(i + 1, r[name]) for i, r in enumerate(rows) if name in r])
    plot.save(path)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", action="append", default=[])
    parser.add_argument("--log", action="append", default=[])
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    if options.csv:
        plot_ablation(options.csv, out / "ablation.svg")
        print(out / "ablation.svg")
    for i, file in enumerate(options.log, 1):
        path = out / f"curve-{i}.svg"
        print(path if plot_log(file, path) else f"{file}: no step with a reward")


if __name__ == "__main__":
    main()

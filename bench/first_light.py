#!/usr/bin/env python3
"""Turns the files of scripts/gpu/first_light.sh into one JSON array, one object a problem.

Usage: bench/first_light.py DIRECTORY --commit HASH [--out results/h200/first-light.json]
From bench-tn.jsonl and optimize-*.json: m, n, k, layout, speedup (cold, over the fastest baseline of the same layout),
fastest_baseline, peak_share, times, recipe. From verify-*.jsonl: which (family, layout) passed all gates.
"""
import argparse
import datetime
import json
import math
import pathlib


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def row(entry, machine, source):
    own = entry["conclusion"]["subjects"][0]
    flops = 2.0 * entry["m"] * entry["n"] * entry["k"]
    gflops = flops / (own["cold"]["median_us"] * 1e3)
    result = {key: entry[key] for key in ["m", "n", "k", "layout", "target", "threads", "speedup", "speedup_warm",
                                          "speedup_any_layout", "fastest_baseline"]}
    result.update(
        source=source,
        recipe=entry["conclusion"]["recipe"],
        time_us=own["cold"]["median_us"],
        time_warm_us=own["warm"]["median_us"],
        gflops=gflops,
        peak_share=gflops / machine["peak_gflops"] if machine else None,
        clock_mhz=own["clock_mhz"],
        baselines={subject["subject"]: [subject["cold"]["median_us"], subject["warm"]["median_us"]]
                   for subject in entry["conclusion"]["subjects"][1:]},
        gates_passed=all(gate["passed"] for gate in entry["conclusion"]["gates"]))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/h200/first-light.json"))
    arguments = parser.parse_args()

    optimised = {path: json.loads(path.read_text())[0] for path in sorted(arguments.directory.glob("optimize-*.json"))}
    machine = next(iter(optimised.values()))["machine"]
    proved = {}
    for path in sorted(arguments.directory.glob("verify-*.jsonl")):
        family = path.stem.removeprefix("verify-")
        for entry in read_lines(path):
            shape = (entry["m"], entry["n"], entry["k"])
            passed = entry["verdict"]["kind"] == "accepted" and all(gate["passed"] for gate in entry["verdict"]["gates"])
            proved.setdefault(shape, {})[f"{family}-{entry['layout']}"] = passed
    rows = [row(entry, machine, "bench") for entry in read_lines(arguments.directory / "bench-tn.jsonl")]
    for entry in rows:
        entry["proved"] = proved[(entry["m"], entry["n"], entry["k"])]
    rows += [dict(row(entry, machine, "optimize"), tried=entry["tried"], verdicts=entry["verdicts"],
                  search_seconds=entry["search_seconds"], bookkeeping_ms=entry["bookkeeping_ms"])
             for entry in optimised.values()]
    stamp = {
        "machine": machine["name"],
        "versions": machine["versions"],
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": arguments.commit,
    }
    rows = [dict(entry, **stamp) for entry in rows]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")

    benched = [entry for entry in rows if entry["source"] == "bench"]
    for name, low, high in [("< 24", 0, 24), ("24-28", 24, 28), ("28-32", 28, 32), ("32-36", 32, 36), (">= 36", 36, 99)]:
        chosen = [entry["speedup"] for entry in benched
                  if low <= math.log2(entry["m"] * entry["n"] * entry["k"]) < high]
        if chosen:
            print(f"log2(MNK) {name}: {len(chosen)} problems, geometric mean "
                  f"{math.exp(sum(map(math.log, chosen)) / len(chosen)):.3f}")
    passed = sum(all(entry["proved"].values()) and len(entry["proved"]) == 4 for entry in benched)
    print(f"{passed} of {len(benched)} shapes passed every gate with both families, NN and TN")
    for entry in rows[len(benched):]:
        print(f"optimize {entry['m']}x{entry['n']}x{entry['k']}: {entry['time_us']:.2f} us, {entry['speedup']:.3f}, {entry['recipe']}")


if __name__ == "__main__":
    main()

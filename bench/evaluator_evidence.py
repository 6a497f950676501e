#!/usr/bin/env python3
"""Turns the files of scripts/gpu/evaluator.sh into results/h200/evaluator.json.

Usage: bench/evaluator_evidence.py DIRECTORY [--sources FILE] [--out results/h200/evaluator.json]
DIRECTORY holds attacks.jsonl, spread.jsonl, self.jsonl, throughput.jsonl and faults.txt, or those of them that were
measured again: what is missing stays as the file has it. FILE: the lines that attack_sources_test (attacks on the
compiler, which need no GPU) writes to $WARPSMITH_ATTACKS_OUT; it goes with attacks.jsonl. Exit code 1 when a figure is
not what docs/evaluation.md promises, 2 when a part is neither in DIRECTORY nor in the file; otherwise the file is
written.
"""
import argparse
import datetime
import json
import pathlib
import re
import sys

SELF_TOLERANCE = 0.01      # of the ratio of cuBLASLt to itself
SPREAD_LIMIT = 0.01        # (max - min) / median over processes, of times over 20 us
SPREAD_LIMIT_SHORT = 0.03  # of shorter ones
SHORT_US = 20
LEAST_EVALUATIONS = 100    # a second


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def mnk(row):
    return f"{row['m']}x{row['n']}x{row['k']}"


def attacks(path, *sources):
    lines = [line for each in (path, *sources) for line in read_lines(each)]
    return {"attacks": [{key: line.get(key) for key in ["name", "kind", "succeeds_unprotected", "how_unprotected",
                                                        "caught", "how", "seconds"]}
                        for line in lines if "caught" in line],
            "honest": [{key: line.get(key) for key in ["name", "kind", "accused", "how"]}
                       for line in lines if "accused" in line]}


def spread(path):
    return {"spread": [{"mnk": mnk(row), **{key: row[key] for key in ["median_us", "spread", "ratio", "ratios",
                                                                      "candidate", "baseline"]}}
                       for row in read_lines(path) if "ratios" in row],
            "spread_failures": [{"mnk": mnk(row), "failure": row.get("failure")}
                                for row in read_lines(path) if "ratios" not in row]}


def self_ratio(path):
    return {"self_ratio": [{"mnk": mnk(row), "ratio": row["ratio"], "median_us": row["median_us"],
                            "baseline": row["baseline"]} for row in read_lines(path)]}


def throughput(path):
    rows = read_lines(path)
    return {"evaluations_per_s": min(row["evaluations_per_s"] for row in rows),
            "evaluations": [{"mnk": mnk(row), **{key: row[key] for key in ["evaluations_per_s", "candidates", "gate_ms",
                                                                           "timing_ms", "verdicts"]}} for row in rows]}


def faults(path):
    text = path.read_text()
    verdicts = re.search(r"^verdicts: (.*)$", text, re.MULTILINE)
    return {"faults": {"log": text.splitlines(), "verdicts": verdicts.group(1) if verdicts else None,
                       "problems": len(re.findall(r"^PROBLEM", text, re.MULTILINE))}}


PARTS = {"attacks.jsonl": attacks, "spread.jsonl": spread, "self.jsonl": self_ratio, "throughput.jsonl": throughput,
         "faults.txt": faults}


def measured(path):
    """When the file was written, and what its rows say of device, driver and program."""
    when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc).date().isoformat()
    rows = read_lines(path) if path.suffix == ".jsonl" else []
    return dict(next((row["provenance"] for row in rows if row.get("provenance")), {}), date=when)


def shortcomings(evidence):
    for attack in evidence["attacks"]:
        if not attack["succeeds_unprotected"]:
            yield f"attack {attack['name']} does not succeed unprotected"
        if not attack["caught"]:
            yield f"attack {attack['name']} is not caught"
    for honest in evidence["honest"]:
        if honest["accused"]:
            yield f"honest {honest['name']} is accused"
    for row in evidence["spread"]:
        limit = SPREAD_LIMIT if row["median_us"] > SHORT_US else SPREAD_LIMIT_SHORT
        if not row["spread"] <= limit:
            yield f"spread of {row['mnk']}: {row['spread']:.4f} at {row['median_us']:.2f} us"
    for row in evidence.get("spread_failures", []):
        yield f"spread of {row['mnk']}: {row['failure']}"
    for row in evidence["self_ratio"]:
        if not abs(row["ratio"] - 1) <= SELF_TOLERANCE:
            yield f"cuBLASLt against itself at {row['mnk']}: {row['ratio']:.4f}"
    if not evidence["evaluations_per_s"] >= LEAST_EVALUATIONS:
        yield f"{evidence['evaluations_per_s']:.1f} evaluations a second"
    if evidence["faults"]["problems"] or not evidence["faults"]["verdicts"]:
        yield "faults: see the log"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--sources", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/h200/evaluator.json"))
    arguments = parser.parse_args()

    evidence = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    dates = evidence.setdefault("measured", {})
    for name, read in PARTS.items():
        path = arguments.directory / name
        if not path.exists():
            continue
        sources = [arguments.sources] if name == "attacks.jsonl" and arguments.sources else []
        evidence.update(read(path, *sources))
        dates[path.stem] = measured(path)
    missing = [name for name in PARTS if pathlib.Path(name).stem not in dates]
    if missing:
        print(f"evaluator_evidence: neither {arguments.directory} nor {arguments.out} has {', '.join(missing)}",
              file=sys.stderr)
        return 2
    evidence["provenance"] = max((one for one in dates.values() if "device" in one), key=lambda one: one["date"], default={})
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(evidence, indent=1) + "\n")

    print(f"{len(evidence['attacks'])} attacks, {len(evidence['honest'])} honest candidates, "
          f"{len(evidence['spread'])} spreads, {len(evidence['self_ratio'])} self ratios, "
          f"{evidence['evaluations_per_s']:.1f} evaluations a second")
    found = list(shortcomings(evidence))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

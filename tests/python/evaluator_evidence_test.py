"""What evaluator_evidence.py makes of the files of GPU runs, whole or in part."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "evaluator_evidence.py"
SHAPE = {"m": 64, "n": 64, "k": 64}
DEVICE = {"device": "NVIDIA H200", "driver": "1"}


def spread_row(spread, median_us=5.0):
    return dict(SHAPE, median_us=median_us, spread=spread, ratio=1.2, ratios=[1.2], candidate="tiny", baseline="auto",
                provenance=DEVICE)


class Evidence(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        self.out = self.home / "evaluator.json"

    def write(self, name, *rows):
        (self.home / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def write_all(self):
        self.write("attacks.jsonl", {"name": "stale", "succeeds_unprotected": True, "caught": True},
                   {"name": "plain", "accused": False})
        self.write("spread.jsonl", spread_row(0.02))
        self.write("self.jsonl", dict(SHAPE, ratio=1.001, median_us=3.0, baseline="auto", provenance=DEVICE))
        self.write("throughput.jsonl", dict(SHAPE, evaluations_per_s=120.0, candidates=8, gate_ms=2, timing_ms=2,
                                            verdicts={"accepted": 9}, provenance=DEVICE))
        (self.home / "faults.txt").write_text("verdicts: 200 accounted for\n")

    def run_program(self, *more):
        done = subprocess.run([sys.executable, str(PROGRAM), str(self.home), "--out", str(self.out), *more],
                              capture_output=True, text=True)
        return done.returncode, json.loads(self.out.read_text()) if self.out.exists() else None

    def test_a_whole_run(self):
        self.write_all()
        sources = self.home / "sources"
        sources.write_text(json.dumps({"name": "include", "succeeds_unprotected": True, "caught": True}) + "\n")
        code, evidence = self.run_program("--sources", str(sources))
        self.assertEqual(code, 0)
        self.assertEqual([each["name"] for each in evidence["attacks"]], ["stale", "include"])
        self.assertEqual(evidence["honest"][0]["accused"], False)
        self.assertEqual(evidence["evaluations_per_s"], 120.0)
        self.assertEqual(set(evidence["measured"]), {"attacks", "spread", "self", "throughput", "faults"})
        self.assertEqual(evidence["provenance"]["device"], "NVIDIA H200")

    def test_a_part_measured_again_leaves_the_others(self):
        self.write_all()
        self.assertEqual(self.run_program()[0], 0)
        for path in self.home.glob("*.jsonl"):
            path.unlink()
        self.write("spread.jsonl", spread_row(0.005))
        code, evidence = self.run_program()
        self.assertEqual(code, 0)
        self.assertEqual(evidence["spread"][0]["spread"], 0.005)
        self.assertEqual(evidence["attacks"][0]["name"], "stale")

    def test_a_missing_part_writes_nothing(self):
        self.write_all()
        (self.home / "self.jsonl").unlink()
        self.assertEqual(self.run_program(), (2, None))

    def test_what_falls_short(self):
        for spread, median_us, code in [(0.029, 19, 0), (0.031, 19, 1), (0.009, 21, 0), (0.011, 21, 1)]:
            self.write_all()
            self.write("spread.jsonl", spread_row(spread, median_us))
            self.assertEqual(self.run_program()[0], code, (spread, median_us))


if __name__ == "__main__":
    unittest.main()

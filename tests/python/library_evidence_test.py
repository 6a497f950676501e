"""What library_evidence.py makes of the rows, speed-ups and statuses of GPU runs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "library_evidence.py"


def row(m, ratio=1.2, right=True, own=True):
    return {"m": m, "n": 64, "k": 64, "ratio": ratio, "us": 3.0, "right": right, "own": own}


class Evidence(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)

    def rows(self, name, *rows, tail=""):
        (self.home / name).write_text("\n" + "".join(json.dumps(each) + "\n" for each in rows) + tail)

    def run_program(self):
        done = subprocess.run([sys.executable, str(PROGRAM), str(self.home)], capture_output=True, text=True)
        target = self.home / "library.json"
        return done.returncode, json.loads(target.read_text()) if target.exists() else {}

    def test_a_whole_grid_of_two_shards(self):
        self.rows("library_grid_0.jsonl", *(row(m) for m in range(1, 501)))
        self.rows("library_grid_1.jsonl", *(row(m, own=m > 600) for m in range(501, 1001)), row(1, ratio=1.3))
        (self.home / "library.json").write_text(json.dumps({"host_cost_us": 0.5}))
        code, evidence = self.run_program()
        self.assertEqual(code, 0)
        self.assertEqual(evidence["host_cost_us"], 0.5)
        grid = evidence["grid"]
        self.assertEqual((grid["shapes"], grid["right"], grid["timed"], grid["below_0.99"]), (1000, 1000, 1000, 0))
        self.assertEqual((grid["own_share"], grid["worst_ratio"]), (0.9, 1.2))

    def test_what_falls_short(self):
        for bad in [row(1000, ratio=0.98), row(1000, ratio=0), row(1000, right=False)]:
            self.rows("library_grid_0.jsonl", *(row(m) for m in range(1, 1000)), bad)
            self.assertEqual(self.run_program()[0], 1, bad)

    def test_an_unfinished_run(self):
        self.rows("library_grid_0.jsonl", row(1), row(2, ratio=0.5), tail='{"m": 3, "n"')
        code, evidence = self.run_program()
        self.assertEqual((code, evidence["grid"]["shapes"]), (1, 2))
        self.assertEqual((evidence["grid"]["worst_ratio"], evidence["grid"]["worst_shape"]), (0.5, "2x64x64"))

    def test_speed_ups_and_statuses(self):
        (self.home / "interposer.json").write_text(
            json.dumps({"interposer": [{"tokens": 1, "end_to_end": 1.1, "gemm_only": 1.2, "within_bound": True}]}))
        (self.home / "library.json").write_text(json.dumps(
            {"wrong_device": "refused", "bad_input": [{"case": "wrong device", "status": "not run: one device"},
                                                      {"case": "null a", "status": "out of range"}]}))
        code, evidence = self.run_program()
        self.assertEqual(code, 0)
        self.assertEqual(evidence["interposer"][0]["gemm_only"], 1.2)
        self.assertEqual([each["status"] for each in evidence["bad_input"]], ["refused", "out of range"])

    def test_nothing_there(self):
        self.assertEqual(self.run_program(), (3, {}))


if __name__ == "__main__":
    unittest.main()

"""What decoder_block.py makes of the runs that it compares, on made-up measurements."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BLOCK = pathlib.Path(__file__).resolve().parents[2] / "python" / "examples" / "decoder_block.py"


def point(phase, tokens, gemm_us, block_us, error=0.5, block_error=0.001):
    return {"phase": phase, "tokens": tokens, "gemm_us": gemm_us, "block_us": block_us, "eager_us": 2 * block_us,
            "error_over_bound": error, "block_error": block_error}


class Compare(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def write(self, name, *points):
        path = pathlib.Path(self.home.name) / name
        path.write_text(json.dumps({"device": "GPU", "torch": "2", "type": "f16", "points": points}))
        return str(path)

    def compare(self, plain, preloaded, prefill="128", decode="1"):
        done = subprocess.run([sys.executable, str(BLOCK), "compare", ",".join(plain), ",".join(preloaded),
                               "--prefill", prefill, "--decode", decode], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        result = json.loads(done.stdout)
        self.missing = result["missing"]
        return done.returncode, result["interposer"]

    def test_medians_of_several_runs(self):
        plain = [self.write(f"p{i}", point("prefill", 128, us, 200), point("decode", 1, 10, 20)) for i, us in enumerate([90, 100, 500])]
        preloaded = [self.write("q", point("prefill", 128, 80, 160), point("decode", 1, 20, 20))]
        code, rows = self.compare(plain, preloaded)
        self.assertEqual(code, 0)
        self.assertEqual([(row["phase"], row["tokens"]) for row in rows], [("prefill", 128), ("decode", 1)])
        self.assertEqual([row["gemm_only"] for row in rows], [1.25, 0.5])
        self.assertEqual([row["end_to_end"] for row in rows], [1.25, 1.0])

    def test_errors_count_by_the_worst_run(self):
        plain = [self.write("p", point("prefill", 128, 100, 200))]
        for wrong in [{"error": 1.2}, {"block_error": 0.002}, {"error": float("nan")}]:
            runs = [self.write("good", point("prefill", 128, 80, 160)), self.write("bad", point("prefill", 128, 80, 160, **wrong))]
            for order in (runs, runs[::-1]):
                code, rows = self.compare(plain, order, decode="")
                self.assertEqual((code, rows[0]["within_bound"], self.missing), (1, False, []), wrong)

    def test_errors_and_times_of_different_runs(self):
        def without(names, whole):
            return {name: value for name, value in whole.items() if name not in names}

        whole = point("prefill", 128, 100, 200)
        times = self.write("times", without(("error_over_bound", "block_error"), whole))
        errors = self.write("errors", without(("gemm_us", "block_us", "eager_us"), whole))
        code, rows = self.compare([self.write("plain", whole)], [errors, times], decode="")
        self.assertEqual((code, rows[0]["gemm_only"], rows[0]["within_bound"]), (0, 1.0, True))
        code, rows = self.compare([self.write("plain", whole)], [times], decode="")  # nothing says that it is right
        self.assertEqual((code, rows[0]["error_over_bound"], rows[0]["within_bound"]), (1, None, False))
        code, rows = self.compare([self.write("plain", whole)], [errors], decode="")
        self.assertEqual((code, rows, self.missing), (1, [], ["prefill 128"]))

    def test_points_that_were_not_reached(self):
        plain = [self.write("p", point("prefill", 128, 100, 200), point("decode", 1, 10, 20))]
        code, rows = self.compare(plain, [self.write("q", point("prefill", 128, 80, 160))], prefill="128,256")
        self.assertEqual((code, len(rows), self.missing), (1, 1, ["prefill 256", "decode 1"]))


class Run(unittest.TestCase):
    def test_points_that_are_there_are_not_run_again(self):
        with tempfile.TemporaryDirectory() as home:
            path = pathlib.Path(home) / "out.json"
            path.write_text(json.dumps({"device": "GPU", "torch": "2", "type": "f16", "points": [point("decode", 1, 1, 2)]}))
            before = path.read_text()
            command = [sys.executable, str(BLOCK), "run", str(path), "--prefill", ""]
            self.assertEqual(subprocess.run([*command, "--decode", "1"]).returncode, 0)
            self.assertEqual(path.read_text(), before)

    def test_shapes_of_the_layers(self):
        done = subprocess.run([sys.executable, str(BLOCK), "shapes", "--prefill", "128", "--decode", "1,128"],
                              capture_output=True, text=True)
        lines = done.stdout.splitlines()
        self.assertEqual((len(lines), lines[0], lines[-1]), (8, "1 6144 4096", "128 4096 14336"))


if __name__ == "__main__":
    unittest.main()

"""prepare_plans.py on the real library, over a driver that runs nothing: what it compiles stays in the cache."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "python" / "prepare_plans.py"
LIBRARY = os.environ.get("WARPSMITH_LIBRARY")
DRIVER = os.environ.get("WARPSMITH_FAKE_DRIVER")  # its folder


@unittest.skipIf(not LIBRARY or not DRIVER, "WARPSMITH_LIBRARY and WARPSMITH_FAKE_DRIVER do not say what to run")
class PreparePlans(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.cache = pathlib.Path(home.name)

    def run_program(self, shapes, library=LIBRARY, driver=DRIVER):
        environment = {**os.environ, "LD_LIBRARY_PATH": driver, "WARPSMITH_CACHE": str(self.cache)}
        return subprocess.run([sys.executable, str(PROGRAM), library, "--threads", "2"], input=shapes, text=True,
                              capture_output=True, env=environment)

    def kernels(self):
        return {path.stat().st_mtime_ns for path in self.cache.rglob("kernel.cubin")}

    def test_kernels_are_compiled_once(self):
        shapes = "64 64 64\n128 64 64\n"
        for _ in range(2):
            done = self.run_program(shapes)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("2 of 2 problems prepared", done.stdout)
            first = self.kernels()
            self.assertTrue(first)
        self.assertEqual(self.kernels(), first)

    def test_bad_input(self):
        done = self.run_program("64 64\n")
        self.assertEqual((done.returncode, done.stderr), (2, "prepare_plans: '64 64' is no shape; accepted: M N K\n"))

    def test_no_library_and_no_driver(self):
        self.assertEqual(self.run_program("64 64 64\n", library="/no/such/libwarpsmith.so").returncode, 3)
        done = self.run_program("64 64 64\n", driver=str(self.cache))
        if done.returncode != 0:  # without a GPU
            self.assertEqual(done.returncode, 3)
            self.assertEqual(len(done.stderr.splitlines()), 1)


if __name__ == "__main__":
    unittest.main()

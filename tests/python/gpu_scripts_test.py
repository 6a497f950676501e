"""What the scripts for a GPU host say to options that they do not know or cannot use."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Options(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        shutil.copytree(ROOT / "scripts/gpu", self.home / "scripts/gpu")
        (self.home / "stage").mkdir()
        program = self.home / "stage/warpsmith"  # must not be reached
        program.write_text("#!/bin/sh\necho reached\n")
        program.chmod(0o755)

    def refused(self, *command):
        environment = dict(os.environ, OUT=str(self.home / "out"))
        done = subprocess.run(["bash", str(self.home / "scripts/gpu" / command[0]), *command[1:]], env=environment,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_unknown_options_and_words(self):
        self.assertIn("unknown option '--foo'; accepted: --limit --final --state", self.refused("tune.sh", "--foo", "3"))
        self.assertIn("unknown word 'grid'", self.refused("tune.sh", "grid"))
        self.assertIn("unknown option '--final'", self.refused("survey.sh", "--final", "3"))
        self.assertIn("unknown step 'grids'; accepted: grid, server, accuracy, llm", self.refused("survey.sh", "grids"))

    def test_values_that_cannot_be(self):
        self.assertIn("--limit needs a value", self.refused("survey.sh", "--limit"))
        self.assertIn("--limit 1m; accepted: whole seconds", self.refused("tune.sh", "--limit", "1m"))
        self.assertIn("--limit -1; accepted: whole seconds", self.refused("sweep.sh", "--limit", "-1"))
        self.assertIn("--spaces 'none' is no file", self.refused("sweep.sh", "--spaces", "none"))


if __name__ == "__main__":
    unittest.main()

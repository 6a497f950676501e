"""What setup.py puts into the package: the library and, beside it, what it looks for there. PyTorch is stood in for."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
STUB = """
import pathlib
from setuptools import Extension
from setuptools.command.build_ext import build_ext as BuildExtension
def CppExtension(name, sources, **options):
    source = pathlib.Path(__file__).with_name("stub.c")
    source.write_text("int nothing(void) { return 0; }")
    return Extension(name, [str(source)], extra_link_args=[])
"""

try:
    import setuptools  # noqa: F401
except ImportError:
    setuptools = None


@unittest.skipIf(setuptools is None or COMPILER is None, "needs setuptools and a compiler")
class Setup(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        stub = self.home / "stub" / "torch" / "utils"
        stub.mkdir(parents=True)
        (stub / "cpp_extension.py").write_text(STUB)
        for folder in (stub.parent, stub):
            (folder / "__init__.py").write_text("")
        self.python = self.home / "checkout" / "python"
        shutil.copytree(ROOT / "python", self.python)
        shutil.copytree(ROOT / "include", self.home / "checkout" / "include")
        self.prefix = self.home / "prefix"
        (self.prefix / "lib").mkdir(parents=True)
        self.library = self.prefix / "lib" / "libwarpsmith.so"
        self.library.write_bytes(b"library")

    def put(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
        path.chmod(0o755)

    def build(self):
        site = self.home / "site"
        environment = {**os.environ, "PYTHONPATH": str(self.home / "stub"), "WARPSMITH_LIBRARY": str(self.library),
                       "PKG_CONFIG_LIBDIR": str(self.home)}
        for name in ("WARPSMITH_NVRTC", "PKG_CONFIG_PATH"):
            environment.pop(name, None)
        done = subprocess.run([sys.executable, str(self.python / "setup.py"), "build_ext", "--build-lib", str(site),
                               "--build-temp", str(self.home / "temporary")], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("setup.py: not found")]
        package = site / "warpsmith"
        files = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
        return {name for name in files if not name.startswith("_torch")}, said, package

    def test_an_installation(self):
        self.put(self.prefix / "bin" / "warpsmith-nvrtc")
        self.put(self.prefix / "share" / "warpsmith" / "wisdom" / "h200.jsonl")
        self.put(self.prefix / "share" / "warpsmith" / "packs" / "h200.wspack")
        files, said, package = self.build()
        self.assertEqual(files, {"libwarpsmith.so", "warpsmith-nvrtc", "wisdom/h200.jsonl", "packs/h200.wspack"})
        self.assertTrue(os.access(package / "warpsmith-nvrtc", os.X_OK))
        self.assertEqual(said, [])

    def test_the_checkouts_wisdom_comes_first(self):
        self.put(self.prefix / "lib" / "warpsmith-nvrtc")  # as scripts/stage.sh lays it out
        self.put(self.prefix / "share" / "warpsmith" / "wisdom" / "a100.jsonl")
        self.put(self.home / "checkout" / "wisdom" / "h200.jsonl")
        files, said, _ = self.build()
        self.assertEqual(files, {"libwarpsmith.so", "warpsmith-nvrtc", "wisdom/h200.jsonl"})
        self.assertEqual(said, [])

    def test_what_is_missing_is_said_in_one_line(self):
        files, said, _ = self.build()
        self.assertEqual(files, {"libwarpsmith.so"})
        self.assertEqual(len(said), 1)
        self.assertIn("warpsmith-nvrtc", said[0])
        self.assertIn("wisdom", said[0])


if __name__ == "__main__":
    unittest.main()

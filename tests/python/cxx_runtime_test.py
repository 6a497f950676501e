"""What cxx_runtime.py names makes an extension with a static C++ runtime write numbers as the program does that loads it."""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from cxx_runtime import loaded_runtime  # noqa: E402

COMPILER = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
SOURCE = """
#include <cstdio>
#include <sstream>
extern "C" void write_number(long value, char* text, unsigned long size) {
  std::ostringstream stream;
  stream << "[" << value << "]";
  std::snprintf(text, size, "%s", stream.str().c_str());
}
"""
PROGRAM = """
import ctypes, sys
for path in sys.argv[1:]:
    text = ctypes.create_string_buffer(64)
    ctypes.CDLL(path).write_number(ctypes.c_long(42), text, ctypes.c_ulong(64))
    print(text.value.decode())
"""


class Maps(unittest.TestCase):
    def runtime(self, *paths):
        with tempfile.NamedTemporaryFile("w", suffix=".maps") as file:
            file.write("".join(f"7f00-7f01 r-xp 00000000 08:01 42    {path}\n" for path in paths))
            file.write("7f02-7f03 rw-p 00000000 00:00 0\n")
            file.flush()
            return loaded_runtime(file.name)

    def test_each_library_once_in_the_linkers_order(self):
        gcc, standard = "/usr/lib/libgcc_s.so.1", "/opt/a folder/libstdc++.so.6.0.33"
        self.assertEqual(self.runtime(gcc, standard, "/usr/lib/libc.so.6", standard, gcc), [standard, gcc])

    def test_nothing_loaded(self):
        self.assertEqual(self.runtime("/usr/lib/libc.so.6"), [])
        self.assertEqual(loaded_runtime("/no/such/file"), [])


@unittest.skipIf(COMPILER is None, "no C++ compiler")
class Link(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        (self.home / "write.cpp").write_text(SOURCE)
        self.compile("-fPIC", "-c", self.home / "write.cpp", "-o", self.home / "write.o")
        self.shared = self.link("shared")
        ctypes.CDLL(self.shared)  # loads the runtime, as PyTorch would have

    def compile(self, *arguments):
        subprocess.run([COMPILER, *map(str, arguments)], check=True)

    def link(self, name, *arguments):
        path = str(self.home / f"{name}.so")
        self.compile("-shared", self.home / "write.o", "-o", path, *arguments)
        return path

    def written(self, *paths):
        return subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True)

    def test_numbers_are_whole(self):
        static = ["-static-libstdc++", "-static-libgcc"]
        try:
            broken = self.link("broken", *static)
        except subprocess.CalledProcessError:
            self.skipTest("no static C++ runtime")
        if self.written(self.shared, broken).stdout.split() == ["[42]", "[42]"]:
            self.skipTest("a second C++ runtime does no harm here")
        mended = self.written(self.shared, self.link("mended", *loaded_runtime(), *static))
        self.assertEqual((mended.returncode, mended.stdout.split()), (0, ["[42]", "[42]"]))


if __name__ == "__main__":
    unittest.main()

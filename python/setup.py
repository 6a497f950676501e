"""Builds the PyTorch operator against the PyTorch that is there:  pip install --no-build-isolation ./python

Needs a C++ compiler and libwarpsmith, which is looked for in $WARPSMITH_LIBRARY (the shared library's path), in the
checkout's build folders and stage/, and through pkg-config. The library is copied into the package.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import setuptools
from torch.utils.cpp_extension import BuildExtension, CppExtension

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
from cxx_runtime import loaded_runtime  # noqa: E402


def pkg_config(variable):
    try:
        found = subprocess.run(["pkg-config", f"--variable={variable}", "warpsmith"], capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def find_library():
    candidates = [pathlib.Path(os.environ["WARPSMITH_LIBRARY"]).resolve()] if os.environ.get("WARPSMITH_LIBRARY") else []
    folders = [ROOT / "stage", ROOT / "build" / "release" / "lib", ROOT / "build" / "test" / "lib"]
    if pkg_config("libdir"):
        folders.append(pathlib.Path(pkg_config("libdir")))
    for folder in folders:
        candidates += [folder / "libwarpsmith.so", *sorted(folder.glob("libwarpsmith.so.*"))]
    for path in candidates:
        if path.exists():
            return path.resolve()
    raise SystemExit("setup.py: libwarpsmith.so was not found; set WARPSMITH_LIBRARY to its path. Looked in: "
                     + ", ".join(map(str, folders)))


def find_include():
    for folder in [os.environ.get("WARPSMITH_INCLUDE"), ROOT / "include", pkg_config("includedir")]:
        if folder and (pathlib.Path(folder) / "warpsmith" / "hgemm.h").exists():
            return str(pathlib.Path(folder).resolve())
    raise SystemExit("setup.py: warpsmith/hgemm.h was not found; set WARPSMITH_INCLUDE to the folder above it")


class Build(BuildExtension):
    """Puts libwarpsmith beside the extension, under the name that the extension asks for."""

    def run(self):
        super().run()
        for extension in self.extensions:
            target = pathlib.Path(self.get_ext_fullpath(extension.name)).parent
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(LIBRARY, target / soname(LIBRARY))


def soname(library):
    """The name that programs linked with the library look for: DT_SONAME, else the file's own."""
    try:
        listing = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True).stdout
    except FileNotFoundError:
        listing = ""
    for line in listing.splitlines():
        if "(SONAME)" in line:
            return line[line.index("[") + 1 : line.index("]")]
    return library.name


LIBRARY = find_library()
os.chdir(HERE)  # setuptools wants the sources' paths relative to where it runs
HOST = os.environ.get("WARPSMITH_TORCH_HOST") == "1"  # tests without a GPU: the library computes on the host

setuptools.setup(
    name="warpsmith",
    version="0.1.0",
    description="Half-precision matrix products on libwarpsmith",
    packages=["warpsmith"],
    ext_modules=[
        CppExtension(
            "warpsmith._torch",
            ["csrc/matmul.cpp"],
            include_dirs=[find_include()],
            extra_compile_args=["-O2", "-std=c++20"] + (["-DWARPSMITH_TORCH_HOST"] if HOST else []),
            extra_link_args=[str(LIBRARY), "-Wl,-rpath,$ORIGIN", *loaded_runtime()],
        )
    ],
    cmdclass={"build_ext": Build},
    python_requires=">=3.9",
)

"""Builds the PyTorch operator against the PyTorch that is there:  pip install --no-build-isolation ./python

Needs a C++ compiler and libwarpsmith, which is looked for in $WARPSMITH_LIBRARY (the shared library's path), in the
checkout's build folders and stage/, and through pkg-config. The library is copied into the package, and beside it what it
looks for there: its compiler warpsmith-nvrtc, wisdom/*.jsonl of the checkout or the installation, packs/*.wspack.
"""

import os
import pathlib
import re
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


def find_companions(library):
    """(path, place in the package) of what the library looks for beside itself, and the names of what is missing."""
    folder = library.parent
    roots = [folder, folder.parent] + [pathlib.Path(prefix) for prefix in [pkg_config("prefix")] if prefix]
    compilers = [place / "warpsmith-nvrtc" for root in roots for place in (root, root / "bin")]
    if os.environ.get("WARPSMITH_NVRTC"):
        compilers.insert(0, pathlib.Path(os.environ["WARPSMITH_NVRTC"]))
    found = [(path.resolve(), "warpsmith-nvrtc") for path in compilers if os.access(path, os.X_OK)][:1]
    missing = [] if found else ["warpsmith-nvrtc, so kernels come from packs and the disk cache alone"]
    shares = [root / "share" / "warpsmith" for root in roots]
    for kind, suffix, folders in [("wisdom", "jsonl", [ROOT, folder, *shares]), ("packs", "wspack", [folder, *shares])]:
        files = next((files for place in folders if (files := sorted((place / kind).glob(f"*.{suffix}")))), [])
        found += [(path, f"{kind}/{path.name}") for path in files]
        if not files and kind == "wisdom":
            missing.append("wisdom/*.jsonl, so the performance model alone chooses kernels")
    return found, missing


class Build(BuildExtension):
    """Puts libwarpsmith beside the extension, under the name that the extension asks for, and its companions."""

    def run(self):
        super().run()
        companions, missing = find_companions(LIBRARY)
        for extension in self.extensions:
            target = pathlib.Path(self.get_ext_fullpath(extension.name)).parent
            for path, place in [(LIBRARY, soname(LIBRARY)), *companions]:
                (target / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target / place)
        if missing:
            print(f"setup.py: not found for {LIBRARY}: " + "; ".join(missing), file=sys.stderr)


def version(include):
    """Of the header, which the library shares."""
    text = (pathlib.Path(include) / "warpsmith" / "hgemm.h").read_text(encoding="utf-8")
    return ".".join(re.search(rf"WARPSMITH_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


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
INCLUDE = find_include()
os.chdir(HERE)  # setuptools wants the sources' paths relative to where it runs
HOST = os.environ.get("WARPSMITH_TORCH_HOST") == "1"  # tests without a GPU: the library computes on the host

setuptools.setup(
    name="warpsmith",
    version=version(INCLUDE),
    description="Half-precision matrix products on libwarpsmith",
    packages=["warpsmith"],
    ext_modules=[
        CppExtension(
            "warpsmith._torch",
            ["csrc/matmul.cpp"],
            include_dirs=[INCLUDE],
            extra_compile_args=["-O2", "-std=c++20"] + (["-DWARPSMITH_TORCH_HOST"] if HOST else []),
            extra_link_args=[str(LIBRARY), "-Wl,-rpath,$ORIGIN", *loaded_runtime()],
        )
    ],
    cmdclass={"build_ext": Build},
    python_requires=">=3.9",
)

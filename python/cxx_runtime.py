"""The C++ runtime of this process as linker arguments, for extensions that are loaded into one like it.

Some compilers have libstdc++ only as an archive. An extension that brings a copy of its own shares half of its state with
the copy that PyTorch has loaded (the objects that ELF calls unique, ids of locale facets among them), and the first number
it writes into a stream is lost or crashes: error messages are where that shows. Named by path before the compiler's own,
the loaded libraries win, and the archive adds no more than what they lack.

    python3 cxx_runtime.py       with PyTorch: its libraries, one a line, for linkers that setup.py does not call
"""

import pathlib

LIBRARIES = ("libstdc++.so", "libgcc_s.so")


def loaded_runtime(maps="/proc/self/maps"):
    """Paths of the C++ runtime's libraries that this process has loaded, in the linker's order; none where it has none."""
    try:
        text = pathlib.Path(maps).read_text(encoding="utf-8")
    except OSError:
        return []
    paths = [line.split(maxsplit=5)[5] for line in text.splitlines() if len(line.split(maxsplit=5)) == 6]
    found = []
    for library in LIBRARIES:
        found += sorted({path for path in paths if path.rsplit("/", 1)[-1].startswith(library)})[:1]
    return found


if __name__ == "__main__":
    import torch  # noqa: F401  what it loads is what is asked for

    print("\n".join(loaded_runtime()))

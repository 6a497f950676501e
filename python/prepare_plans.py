#!/usr/bin/env python3
"""Has libwarpsmith choose and compile the kernels of many problems at once, so that later processes find them in its cache.

    prepare_plans.py LIBRARY [--type f16|bf16] [--threads N] < SHAPES

SHAPES: "M N K" a line, products of row-major A [M, K] with the transpose of row-major B [N, K], as linear layers have them.
Uses the first GPU; the environment says where wisdom, pack and cache are, as for any program.
"""

import argparse
import concurrent.futures
import ctypes
import os
import sys
import time

OP_N, OP_T = 0, 1
SUCCESS, NOT_COVERED = 0, 4
FALLBACK_NONE = 1
TYPES = {"f16": 0, "bf16": 1}


class Options(ctypes.Structure):
    """warpsmith_options_t; zeros are its defaults."""

    _fields_ = [("mode", ctypes.c_int), ("fallback", ctypes.c_int), ("compile", ctypes.c_int), ("launch", ctypes.c_int),
                ("streams", ctypes.c_int32),
                *((name, ctypes.c_char_p) for name in ("wisdom_path", "pack_path", "cache_path")),
                ("reserved", ctypes.c_int64 * 8)]


class Problem(ctypes.Structure):
    """warpsmith_problem_t; zeros are its defaults."""

    _fields_ = [("op_a", ctypes.c_int), ("op_b", ctypes.c_int), ("type", ctypes.c_int), ("compute", ctypes.c_int),
                *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c",
                                                      "batch_count")),
                ("reserved", ctypes.c_int64 * 4)]


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        self.functions.warpsmith_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        options = Options(fallback=FALLBACK_NONE)
        self.check(self.functions.warpsmith_create_with_options(ctypes.byref(self.handle), ctypes.byref(options)))

    def check(self, status):
        if status != SUCCESS:
            raise RuntimeError(self.functions.warpsmith_last_error().decode())

    def prepare(self, shape, kind):
        """One plan, which leaves its kernels in the cache; from any thread. Whether it has any: else cuBLAS is the choice."""
        problem = Problem(op_a=OP_N, op_b=OP_T, type=TYPES[kind], m=shape[0], n=shape[1], k=shape[2])
        plan = ctypes.c_void_p()
        status = self.functions.warpsmith_plan_create(self.handle, ctypes.byref(problem), ctypes.byref(plan))
        if status == NOT_COVERED:
            return False
        self.check(status)
        self.check(self.functions.warpsmith_plan_destroy(plan))
        return True


def read_shapes(lines):
    shapes = []
    for line in lines:
        words = line.split()
        if len(words) != 3 or not all(word.isdigit() for word in words):
            raise ValueError(f"'{line.strip()}' is no shape; accepted: M N K")
        shapes.append(tuple(map(int, words)))
    return shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libwarpsmith.so")
    parser.add_argument("--type", choices=sorted(TYPES), default="f16")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        shapes = read_shapes(sys.stdin)
    except ValueError as error:
        print(f"prepare_plans: {error}", file=sys.stderr)
        return 2
    start = time.monotonic()
    try:
        library = Library(arguments.library)
    except (OSError, RuntimeError) as error:
        print(f"prepare_plans: {error}", file=sys.stderr)
        return 3
    failed = covered = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.threads)) as pool:
        work = {pool.submit(library.prepare, shape, arguments.type): shape for shape in shapes}
        for done in concurrent.futures.as_completed(work):
            if done.exception() is not None:
                failed += 1
                print("{}x{}x{}: {}".format(*work[done], done.exception()), file=sys.stderr)
            elif done.result():
                covered += 1
    library.functions.warpsmith_destroy(library.handle)
    print(f"{len(shapes) - failed} of {len(shapes)} problems prepared in {time.monotonic() - start:.1f} s, "
          f"{covered} of them with kernels")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

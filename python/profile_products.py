#!/usr/bin/env python3
"""Runs matrix products one after the other for a profiler that starts when it is told to (ncu --profile-from-start off).

    profile_products.py cublas|LIBRARY < PRODUCTS

PRODUCTS: "M N K LAYOUT" a line; LAYOUT: nn or tn (B row-major as it is, or its transpose). cublas: as PyTorch runs them; LIBRARY:
the path of libwarpsmith.so, whose wisdom, pack and cache the environment names; a product that it has no kernel for is an
error. A call is profiled after several that warm up. Before each a fill is profiled too, whose kernel tells where the next
product's begin. Exit codes: 1 a product failed, 2 bad input, 3 no PyTorch or no CUDA GPU.
"""

import ctypes
import sys

import prepare_plans

WARM_UP = 5


def read_products(lines):
    products = []
    for line in lines:
        words = line.split()
        if len(words) != 4 or words[3] not in ("nn", "tn") or not all(word.isdigit() and int(word) > 0 for word in words[:3]):
            raise ValueError(f"'{line.strip()}' is no product; accepted: M N K nn|tn")
        products.append((*map(int, words[:3]), words[3]))
    return products


class Cublas:
    def __init__(self, torch):
        self.torch = torch

    def product(self, a, b, c, layout):
        self.torch.mm(a, b.t() if layout == "tn" else b, out=c)


class Warpsmith:
    def __init__(self, torch, path):
        self.torch = torch
        self.library = prepare_plans.Library(path)
        self.gemm = self.library.functions.warpsmith_gemm
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self.gemm.argtypes = [pointer, ctypes.c_int, ctypes.c_int, integer, integer, integer, ctypes.c_float, pointer, integer,
                              pointer, integer, ctypes.c_float, pointer, integer, ctypes.c_int, ctypes.c_int, pointer]

    def product(self, a, b, c, layout):
        (m, k), n = a.shape, c.shape[1]
        self.library.check(
            self.gemm(self.library.handle, prepare_plans.OP_N, prepare_plans.OP_T if layout == "tn" else prepare_plans.OP_N,
                      m, n, k, 1.0, a.data_ptr(), k, b.data_ptr(), b.shape[1], 0.0, c.data_ptr(), n, prepare_plans.TYPES["f16"],
                      0, self.torch.cuda.current_stream().cuda_stream))


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        products = read_products(sys.stdin)
    except ValueError as error:
        print(f"profile_products: {error}", file=sys.stderr)
        return 2
    try:
        import torch
        if not torch.cuda.is_available():
            raise RuntimeError("no CUDA GPU is visible")
        subject = Cublas(torch) if sys.argv[1] == "cublas" else Warpsmith(torch, sys.argv[1])
    except (ImportError, OSError, RuntimeError) as error:
        print(f"profile_products: {error}", file=sys.stderr)
        return 3
    mark = torch.zeros(1, device="cuda")
    failed = 0
    for m, n, k, layout in products:
        marked = False
        try:
            a = torch.randn(m, k, device="cuda").half()
            b = torch.randn(*((n, k) if layout == "tn" else (k, n)), device="cuda").half()
            c = torch.empty(m, n, device="cuda", dtype=torch.half)
            for _ in range(WARM_UP):
                subject.product(a, b, c, layout)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            mark.fill_(1)
            marked = True
            subject.product(a, b, c, layout)
            torch.cuda.synchronize()
        except RuntimeError as error:
            failed += 1
            if not marked:  # else the next product's kernels would be taken for this one's
                torch.cuda.profiler.start()
                mark.fill_(1)
                torch.cuda.synchronize()
            print(f"{m}x{n}x{k} {layout}: {error}", file=sys.stderr)
        finally:
            torch.cuda.profiler.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

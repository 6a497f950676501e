"""torch.ops.warpsmith.matmul: half-precision matrix products on libwarpsmith.

    import torch, warpsmith
    c = warpsmith.matmul(a, b)  # a [..., m, k], b [..., k, n], float16 or bfloat16 CUDA tensors
    warpsmith.explain(a, b)     # what runs that product, and why

FP32 sums, one rounding at the end. Batch dimensions broadcast. Gradients, torch.compile and CUDA graphs work.
"""

import json
import pathlib

import torch

__all__ = ["explain", "matmul"]


def _extension():
    found = sorted(pathlib.Path(__file__).parent.glob("_torch*.so"))
    if not found:
        raise ImportError("warpsmith: the extension is not built; run: pip install --no-build-isolation ./python")
    return str(found[0])


torch.ops.load_library(_extension())
__version__ = torch.ops.warpsmith.version()


@torch.library.register_fake("warpsmith::matmul")
def _fake(a, b):
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: "warpsmith::matmul: expected matrices or batches of them")
    torch._check(a.dtype == b.dtype, lambda: f"warpsmith::matmul: operands differ in type: {a.dtype} and {b.dtype}")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"warpsmith::matmul: sizes {a.shape} and {b.shape} do not fit")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def matmul(a, b):
    """a [..., m, k] times b [..., k, n]: float16 or bfloat16, on one CUDA device; the result is contiguous."""
    return torch.ops.warpsmith.matmul(a, b)


def explain(a, b):
    """What runs matmul(a, b): the fields of warpsmith_explain as a dict (docs/library.md). Runs and compiles nothing."""
    text, aligned = torch.ops.warpsmith.explain(a.detach(), b.detach())
    told = json.loads(text)
    if not aligned and told["runs"] == "kernel":
        told.update(runs="cublaslt", source="cublaslt", recipe=None, kernel=None, expected_us=None,
                    note="an operand does not begin at a multiple of 16 bytes")
    return told

#!/usr/bin/env python3
"""A Llama-style decoder block (random weights, hidden 4096, 32 query and 8 key-value heads, SwiGLU 14336) in plain PyTorch,
to be run as it is and with the interposer preloaded.

    decoder_block.py run OUT.json            measures one process: prefill of 128 to 4096 tokens, decode of 1 to 64 sequences
    LD_PRELOAD=libwarpsmith_cublas.so decoder_block.py run OUT.json
    decoder_block.py compare PLAIN.json[,...] PRELOADED.json[,...]    speed-ups of the medians as JSON
    decoder_block.py shapes                  the products' sizes, "M N K" a line

`run` writes each point as it is done and leaves out those that OUT.json has. Nothing in here knows of warpsmith.
"""

import argparse
import json
import os
import statistics
import sys

torch = F = None  # import_torch()

HIDDEN, HEADS, KV_HEADS, HEAD, FEED = 4096, 32, 8, 128, 14336
CONTEXT = 1024  # tokens that are cached before a decode step
PREFILL = [128, 256, 512, 1024, 2048, 4096]
DECODE = [1, 2, 4, 8, 16, 32, 64]


FIGURES = ("gemm_us", "block_us", "eager_us")
ERRORS = ("error_over_bound", "block_error")


def import_torch():
    """Why PyTorch cannot be used here, or None."""
    global torch, F
    try:
        import torch
        import torch.nn.functional as F
    except ImportError as error:
        return str(error)
    return None if torch.cuda.is_available() else "no CUDA device"


def layers():
    """Outputs and inputs of the linear layers."""
    return {"qkv": ((HEADS + 2 * KV_HEADS) * HEAD, HIDDEN), "out": (HIDDEN, HEADS * HEAD), "gate_up": (2 * FEED, HIDDEN),
            "down": (HIDDEN, FEED)}


def worst_of(errors):
    """The largest; NaN where one is NaN."""
    errors = list(errors)
    return max(errors) if all(error == error for error in errors) else float("nan")


def weights(dtype):
    generator = torch.Generator("cuda").manual_seed(1)

    def matrix(out, into):
        return (torch.randn(out, into, generator=generator, device="cuda") / into**0.5).to(dtype)

    return {name: matrix(*sizes) for name, sizes in layers().items()}


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def angles(positions, dtype):
    rates = 500000.0 ** (-torch.arange(0, HEAD, 2, device="cuda", dtype=torch.float32) / HEAD)
    turned = positions[:, None].float() * rates[None]
    return turned.cos().to(dtype), turned.sin().to(dtype)


def block(x, w, cosine, sine, cache):
    """x: [sequences, tokens, hidden]. cache: None (prefill, causal) or keys and values [sequences, kv heads, context, head]."""
    sequences, tokens, _ = x.shape
    qkv = F.linear(F.rms_norm(x, (HIDDEN,)), w["qkv"])
    q, k, v = qkv.split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], dim=-1)
    q = rotate(q.view(sequences, tokens, HEADS, HEAD).transpose(1, 2), cosine, sine)
    k = rotate(k.view(sequences, tokens, KV_HEADS, HEAD).transpose(1, 2), cosine, sine)
    v = v.view(sequences, tokens, KV_HEADS, HEAD).transpose(1, 2)
    if cache is not None:
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, enable_gqa=True)
    x = x + F.linear(attended.transpose(1, 2).reshape(sequences, tokens, HEADS * HEAD), w["out"])
    gate, up = F.linear(F.rms_norm(x, (HIDDEN,)), w["gate_up"]).chunk(2, dim=-1)
    return x + F.linear(F.silu(gate) * up, w["down"])


def replay_us(work, seconds):
    """Median time of a replay of `work` in a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return timed_us(graph.replay, seconds)


def timed_us(work, seconds):
    for _ in range(3):
        work()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    repeats = max(1, int(0.02 / max(start.elapsed_time(end) * 1e-3, 1e-6)))
    times = []
    spent = 0.0
    while spent < seconds or len(times) < 5:
        start.record()
        for _ in range(repeats):
            work()
        end.record()
        end.synchronize()
        milliseconds = start.elapsed_time(end)
        times.append(milliseconds * 1e3 / repeats)
        spent += milliseconds * 1e-3
    return statistics.median(times)


def excess(result, x, weight):
    """Largest error of x W^T over what FP32 sums and one rounding may have, in pieces that fit."""
    k = x.shape[-1]
    gamma = k * 2.0**-23 / (1 - k * 2.0**-23)
    mantissa, least = (10, -14) if result.dtype == torch.float16 else (7, -126)
    errors = []
    exact_weight = weight.double().t()
    for first in range(0, x.shape[0], 1024):
        piece, got = x[first : first + 1024].double(), result[first : first + 1024].double()
        exact = piece @ exact_weight
        exponent = torch.frexp(exact.abs().clamp_min(2.0**least))[1] - 1
        allowed = torch.ldexp(torch.ones_like(exact), exponent - mantissa - 1) + gamma * (piece.abs() @ exact_weight.abs())
        errors.append(((got - exact).abs() / allowed).max().item())
    return worst_of(errors)


def measure(tokens, decode, w, dtype, seconds, what):
    generator = torch.Generator("cuda").manual_seed(tokens + (1 << 20 if decode else 0))
    shape = (tokens, 1, HIDDEN) if decode else (1, tokens, HIDDEN)
    x = torch.randn(*shape, generator=generator, device="cuda").to(dtype)
    cache = None
    if decode:
        cache = [torch.randn(tokens, KV_HEADS, CONTEXT, HEAD, generator=generator, device="cuda").to(dtype) for _ in range(2)]
    positions = torch.tensor([CONTEXT], device="cuda") if decode else torch.arange(tokens, device="cuda")
    cosine, sine = angles(positions, dtype)

    rows = torch.randn(tokens, HIDDEN, generator=generator, device="cuda").to(dtype)
    wide = torch.randn(tokens, FEED, generator=generator, device="cuda").to(dtype)
    inputs = {"qkv": rows, "out": rows, "gate_up": rows, "down": wide}
    point = {"tokens": tokens, "phase": "decode" if decode else "prefill"}
    if what != "times":
        point["error_over_bound"] = worst_of(excess(F.linear(inputs[name], w[name]), inputs[name], w[name]) for name in w)
        exact = block(x.float(), {name: matrix.float() for name, matrix in w.items()}, cosine.float(), sine.float(),
                      None if cache is None else [part.float() for part in cache])
        got = block(x, w, cosine, sine, cache).float()
        point["block_error"] = ((got - exact).abs().max() / exact.abs().max()).item()
        del exact, got
    if what != "errors":
        point["gemm_us"] = replay_us(lambda: [F.linear(inputs[name], w[name]) for name in w], seconds)
        point["block_us"] = replay_us(lambda: block(x, w, cosine, sine, cache), seconds)
        point["eager_us"] = timed_us(lambda: block(x, w, cosine, sine, cache), seconds)
    return point


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, result):
    """Whole or not at all."""
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(result, file)
    os.replace(path + ".part", path)


def points_of(arguments):
    return [(phase, tokens) for phase, sizes in (("prefill", arguments.prefill), ("decode", arguments.decode)) for tokens in sizes]


def run(arguments):
    points = []
    if os.path.exists(arguments.out):
        points = [point for point in read(arguments.out)["points"] if (point["phase"], point["tokens"]) in points_of(arguments)]
    known = {(point["phase"], point["tokens"]) for point in points}
    left = [point for point in points_of(arguments) if point not in known]
    if not left:
        return 0
    missing = import_torch()
    if missing is not None:
        print("decoder_block: not run: " + missing, file=sys.stderr)
        return 3
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[arguments.type]
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = False
    # Sums in FP32 everywhere: otherwise cuBLAS may add parts of K in the output's type.
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    w = weights(dtype)
    with torch.no_grad():
        for phase, tokens in left:
            points.append(measure(tokens, phase == "decode", w, dtype, arguments.seconds, arguments.what))
            print(json.dumps(points[-1]), file=sys.stderr, flush=True)
            write(arguments.out, {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "type": arguments.type,
                                  "points": points})
    return 0


def load(paths):
    """Points of several runs by phase and tokens, each figure its median; of errors the largest. None: not measured."""
    runs = [read(path) for path in paths.split(",")]
    gathered = {}
    for point in (each for one in runs for each in one["points"]):
        gathered.setdefault((point["phase"], point["tokens"]), []).append(point)
    points = {}
    for key, same in gathered.items():
        values = {name: [each[name] for each in same if name in each] for name in FIGURES + ERRORS}
        points[key] = {name: (worst_of if name in ERRORS else statistics.median)(found) if found else None
                       for name, found in values.items()}
    return runs[0], points


def within_bound(before, after):
    """Whether the products are, and the block is as near to the one in FP32 as cuBLAS's is. False where that was not measured."""
    if None in (before["block_error"], after["block_error"], after["error_over_bound"]):
        return False
    return after["error_over_bound"] <= 1 and after["block_error"] <= 1.5 * before["block_error"] + 1e-6


def compare(arguments):
    facts, plain = load(arguments.plain)
    _, preloaded = load(arguments.preloaded)
    rows, missing = [], []
    for phase, tokens in points_of(arguments):
        before, after = plain.get((phase, tokens)), preloaded.get((phase, tokens))
        if before is None or after is None or None in [each[name] for each in (before, after) for name in FIGURES]:
            missing.append(f"{phase} {tokens}")
            continue
        rows.append({
            "phase": phase,
            "tokens": tokens,
            "end_to_end": before["block_us"] / after["block_us"],
            "end_to_end_eager": before["eager_us"] / after["eager_us"],
            "gemm_only": before["gemm_us"] / after["gemm_us"],
            "block_us": [before["block_us"], after["block_us"]],
            "gemm_us": [before["gemm_us"], after["gemm_us"]],
            "error_over_bound": after["error_over_bound"],
            "within_bound": within_bound(before, after),
        })
    print(json.dumps({"device": facts["device"], "torch": facts["torch"], "type": facts["type"], "interposer": rows,
                      "missing": missing}, indent=1))
    return 0 if rows and not missing and all(row["within_bound"] for row in rows) else 1


def shapes(arguments):
    for tokens in sorted({tokens for _, tokens in points_of(arguments)}):
        for outputs, inputs in layers().values():
            print(tokens, outputs, inputs)
    return 0


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    sizes = argparse.ArgumentParser(add_help=False)
    sizes.add_argument("--prefill", type=numbers, default=PREFILL)
    sizes.add_argument("--decode", type=numbers, default=DECODE)
    command = commands.add_parser("run", parents=[sizes])
    command.add_argument("out")
    command.add_argument("--type", choices=["f16", "bf16"], default="f16")
    command.add_argument("--what", choices=["both", "times", "errors"], default="both")
    command.add_argument("--seconds", type=float, default=0.15, help="of each figure")
    command.set_defaults(run=run)
    command = commands.add_parser("compare", parents=[sizes])
    command.add_argument("plain")
    command.add_argument("preloaded")
    command.set_defaults(run=compare)
    command = commands.add_parser("shapes", parents=[sizes])
    command.set_defaults(run=shapes)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Measures torch.matmul for one shape, NN and TN, the way warpsmith times its subjects.

Usage: torch_baseline.py M N K [--type f16|bf16] [--mode offline|call|server] [--qps 100] [--arrivals 100]
                         [--seconds 0.5] [--seed 1] [--device 0]
Prints one JSON object: times in microseconds, versions. It runs in a process of its own, so its times are not interleaved
with those of other subjects; the object says so. Exit codes: 2 bad input, 3 no PyTorch or no CUDA GPU.

offline  back-to-back launches replayed from a CUDA graph, events around it, time per launch
call     host clock around one call and a synchronisation
server   the same, after a wait of Exp(1/qps) with the GPU idle
cold     operands are not in L2: it is flushed before, and each launch of a replay has operands of its own
warm     the same operands every launch
"""
import argparse
import json
import math
import random
import statistics
import sys
import time

REPLAY_US = 500  # wanted length of a replay: event and graph start-up vanish in it
LONGEST_REPLAY_US = 5e4
FEWEST_LAUNCHES, MOST_LAUNCHES = 4, 256
ESTIMATE_LAUNCHES = 8
FEWEST_SAMPLES, MOST_SAMPLES = 9, 400
FLUSH_FACTOR = 3  # of the L2 cache's size
UNKNOWN_L2_BYTES = 2**26  # where PyTorch does not say
COLD_FACTOR = 2  # operand sets together exceed the L2 cache so many times
PREHEAT_SECONDS = 3
PREHEAT_FLOPS = 2.0**33  # smaller problems are not limited by power
MEMORY_SHARE = 0.5  # of the free memory, for operand sets
OTHER_PROCESS = "measured in a process of its own, not interleaved with the other subjects"


class Missing(Exception):
    """What the environment lacks, one line."""


def percentile(ordered, fraction):
    """Linear interpolation between order statistics of a sorted list."""
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarize(samples, launches):
    ordered = sorted(samples)
    return {
        "median_us": percentile(ordered, 0.5),
        "min_us": ordered[0],
        "p5_us": percentile(ordered, 0.05),
        "p95_us": percentile(ordered, 0.95),
        "mean_us": statistics.fmean(ordered),
        "samples": len(ordered),
        "launches_per_sample": launches,
    }


def launches_for(us_per_launch):
    """Launches per replay that make it long enough to time, and no longer than that."""
    us_per_launch = max(us_per_launch, 1e-3)
    wanted = min(max(math.ceil(REPLAY_US / us_per_launch), FEWEST_LAUNCHES), MOST_LAUNCHES)
    return int(min(wanted, max(1, math.floor(LONGEST_REPLAY_US / us_per_launch))))


def set_count(set_bytes, l2_bytes, launches, free_bytes):
    """Operand sets: one a launch, and enough to exceed the L2 cache, as far as memory goes."""
    enough = math.ceil(COLD_FACTOR * l2_bytes / set_bytes) + 1
    return max(1, min(max(launches, enough), int(MEMORY_SHARE * free_bytes / set_bytes)))


def open_torch(device):
    try:
        import torch
    except ImportError as error:
        raise Missing(f"PyTorch cannot be imported by {sys.executable}: {error}") from None
    if not torch.cuda.is_available():
        raise Missing(f"PyTorch {torch.__version__} finds no CUDA GPU")
    if device >= torch.cuda.device_count():
        raise Missing(f"there is no CUDA device {device}; {torch.cuda.device_count()} found")
    torch.cuda.set_device(device)
    # As the other baselines: FP32 sums throughout.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return torch


class Matmul:
    """Operand sets of one shape and layout, and calls on them."""

    def __init__(self, torch, arguments, layout):
        self.torch, self.arguments, self.layout = torch, arguments, layout
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.l2_bytes = getattr(properties, "L2_cache_size", UNKNOWN_L2_BYTES)
        self.flush_buffer = torch.ones(FLUSH_FACTOR * self.l2_bytes // 4, dtype=torch.int32, device="cuda")
        self.sets = [self._make_set()]
        self._call(0)
        self.torch.cuda.synchronize()
        self.launches = ESTIMATE_LAUNCHES
        self.launches = launches_for(self._first_estimate())
        m, n, k = arguments.m, arguments.n, arguments.k
        count = set_count(2 * (m * k + k * n + m * n), self.l2_bytes, self.launches, torch.cuda.mem_get_info()[0])
        self.sets += [self._make_set() for _ in range(count - 1)]

    def _make_set(self):
        torch, arguments = self.torch, self.arguments
        element = torch.float16 if arguments.type == "f16" else torch.bfloat16

        def normal(rows, columns):
            return torch.randn(rows, columns, device="cuda", dtype=torch.float32).to(element)

        a = normal(arguments.m, arguments.k)
        if self.layout == "nn":
            b = normal(arguments.k, arguments.n)
        else:
            b = normal(arguments.n, arguments.k).t()  # stored n x k
        return a, b, torch.empty(arguments.m, arguments.n, device="cuda", dtype=element)

    def _call(self, index):
        a, b, c = self.sets[index % len(self.sets)]
        self.torch.matmul(a, b, out=c)

    def _first_estimate(self):
        """Microseconds per launch of a short replay: calls one by one would be as slow as the host."""
        graph = self._capture(cold=False)
        return min(self._events(graph.replay) for _ in range(3)) / self.launches

    def _events(self, work):
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        stop.record()
        stop.synchronize()
        return 1e3 * start.elapsed_time(stop)

    def _flush(self):
        self.flush_buffer.sum()  # reads: no dirty lines of its own are written back while the next launches are timed

    def _capture(self, cold):
        """A graph of self.launches calls; a matmul may be several kernels."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # cuBLAS takes its workspace before the capture
            self._call(0)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(self.launches):
                self._call(index if cold else 0)
        return graph

    def preheat(self):
        if 2.0 * self.arguments.m * self.arguments.n * self.arguments.k < PREHEAT_FLOPS:
            return
        end = time.perf_counter() + PREHEAT_SECONDS
        while time.perf_counter() < end:
            for _ in range(self.launches):
                self._call(0)
            self.torch.cuda.synchronize()

    def offline(self):
        """Replays, cold and warm in random order; two lists of microseconds per launch."""
        graphs = {cold: self._capture(cold) for cold in (True, False)}

        def sample(cold, _):
            if cold:
                self._flush()
            else:
                self._call(0)
            return self._events(graphs[cold].replay) / self.launches

        return self._rounds(sample), self.launches

    def calls(self, qps):
        """Calls by the host's clock; with qps, after a wait with the GPU idle."""
        generator = random.Random(self.arguments.seed)

        def sample(cold, index):
            if cold:
                self._flush()
            else:
                self._call(0)
            self.torch.cuda.synchronize()
            if qps:
                end = time.perf_counter() + generator.expovariate(qps)
                while time.perf_counter() < end:  # a spinning host, as a server's
                    pass
            start = time.perf_counter()
            self._call(index if cold else 0)
            self.torch.cuda.synchronize()
            return 1e6 * (time.perf_counter() - start)

        return self._rounds(sample), 1

    def _rounds(self, sample):
        order = random.Random(self.arguments.seed + 1)
        samples = {True: [], False: []}
        for cold in (True, False):
            sample(cold, 0)  # the first one is not counted
        end = time.perf_counter() + self.arguments.seconds
        server = self.arguments.mode == "server"
        for index in range(self.arguments.arrivals if server else MOST_SAMPLES):
            if not server and index >= FEWEST_SAMPLES and time.perf_counter() > end:
                break
            for cold in order.sample([True, False], 2):
                samples[cold].append(sample(cold, index))
        return samples


def clock_mhz(torch):
    try:
        return float(torch.cuda.clock_rate())
    except Exception:  # it needs a package that many installations lack
        return 0.0


def measure(torch, arguments, layout):
    matmul = Matmul(torch, arguments, layout)
    matmul.preheat()
    server = arguments.mode == "server"
    if arguments.mode == "offline":
        samples, launches = matmul.offline()
    else:
        samples, launches = matmul.calls(arguments.qps if server else 0)
    subject = {
        "subject": f"torch-matmul-{layout}",
        "mode": arguments.mode,
        "cold": summarize(samples[True], launches),
        "warm": summarize(samples[False], launches),
        "interleaved": False,
        "detail": f"torch {torch.__version__}, reduced-precision reductions off, {len(matmul.sets)} operand sets; "
        + OTHER_PROCESS,
        "clock_mhz": clock_mhz(torch),
    }
    if server:
        subject["server"] = {"qps": arguments.qps, "arrivals": len(samples[True]), "seed": arguments.seed}
    return subject


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"torch_baseline: {message}\n")


def positive(convert):
    def parse(text):
        value = convert(text)
        if not 0 < value < math.inf:
            raise ValueError
        return value

    parse.__name__ = f"positive {convert.__name__}"
    return parse


def parse_arguments(words):
    parser = Parser(description=__doc__.split("\n\n")[0])
    for name in ("m", "n", "k"):
        parser.add_argument(name, type=positive(int))
    parser.add_argument("--type", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--mode", choices=["offline", "call", "server"], default="offline")
    parser.add_argument("--qps", type=positive(float), default=100.0)
    parser.add_argument("--arrivals", type=positive(int), default=100, help="calls of each series in mode server")
    parser.add_argument("--seconds", type=positive(float), default=0.5, help="of timing, for each layout")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", type=int, default=0)
    return parser.parse_args(words)


def main(words):
    arguments = parse_arguments(words)
    try:
        torch = open_torch(arguments.device)
        torch.manual_seed(arguments.seed)
        subjects = []
        for layout in ("nn", "tn"):
            subjects.append(measure(torch, arguments, layout))
            torch.cuda.empty_cache()
    except Missing as error:
        print(f"torch_baseline: {error}", file=sys.stderr)
        return 3
    except RuntimeError as error:  # PyTorch's own: out of memory, a CUDA error
        print(f"torch_baseline: {str(error).splitlines()[0]}", file=sys.stderr)
        return 3
    report = {
        "m": arguments.m,
        "n": arguments.n,
        "k": arguments.k,
        "element": arguments.type,
        "mode": arguments.mode,
        "measured": OTHER_PROCESS,
        "device": torch.cuda.get_device_name(arguments.device),
        "versions": {
            "torch": str(torch.__version__),
            "torch-cuda": str(torch.version.cuda),
            "python": sys.version.split()[0],
        },
        "subjects": subjects,
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

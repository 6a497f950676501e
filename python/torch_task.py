#!/usr/bin/env python3
"""Measures PyTorch's ways to run a task's expression: the baselines of warpsmith bench --task --torch.

    torch_task.py < REQUEST.json

The request (one JSON object, as warpsmith writes it) holds inputs with shapes and distributions, constants, and the
expression over their names. The answer is one JSON object on stdout: subjects with, cold and warm, a median, minimum, mean, 5th and 95th
percentile in microseconds, or the reason why one was not run.

torch-eager            the expression as it stands, called launch after launch from the host
torch-compile          torch.compile of it, likewise
torch-reduce-overhead  torch.compile in mode reduce-overhead, likewise
torch-cuda-graph       the eager expression's launches replayed from a CUDA graph
torch-compile-graph    those of torch.compile, likewise
cudnn                  cuDNN's operator for the task, replayed from a CUDA graph, where it has one

Cold: before each batch L2 is flushed, and every launch of a batch has inputs of its own. Warm: the same inputs every
launch. It runs in a process of its own, so its times are not interleaved with those of other subjects. Exit codes: 2 bad input, 3 no PyTorch or no CUDA GPU.
"""
import ctypes
import json
import math
import random
import sys
import time

import torch_baseline as shared

BATCH_US = 500.0
OTHER_PROCESS = shared.OTHER_PROCESS
TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i32": "int32"}


def read_request(text):
    try:
        request = json.loads(text)
        for name in ("task", "inputs", "constants", "baselines", "bytes", "seconds", "seed", "device"):
            request[name]
        if not str(request["baselines"].get("torch", "")).strip():
            raise ValueError("the task has no expression for PyTorch")
        return request
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"torch_task: not a request: {error}", file=sys.stderr)
        sys.exit(2)


class Operands:
    """Input sets of one task, and the expression as a function of them."""

    def __init__(self, torch, request):
        self.torch, self.request = torch, request
        names = [one["name"] for one in request["inputs"]]
        constants = dict(request["constants"])
        source = f"def function({', '.join(names)}):\n    return {request['baselines']['torch']}\n"
        scope = {"torch": torch, **constants}
        exec(compile(source, f"<{request['task']}>", "exec"), scope)  # the task's own author wrote it
        self.function = scope["function"]
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.l2_bytes = getattr(properties, "L2_cache_size", shared.UNKNOWN_L2_BYTES)
        self.flush_buffer = torch.ones(shared.FLUSH_FACTOR * self.l2_bytes // 4, dtype=torch.int32, device="cuda")
        self.sets = [self._make_set()]

    def _make_set(self):
        torch = self.torch
        result = []
        for one in self.request["inputs"]:
            shape, kind = one["shape"], getattr(torch, TYPES[one["type"]])
            if one["values"] == "integers":
                result.append(torch.randint(one["low"], one["high"], shape, device="cuda", dtype=kind))
                continue
            if one["values"] == "normal":
                values = torch.randn(shape, device="cuda")
            else:
                values = torch.rand(shape, device="cuda")
                if one["values"] == "uniform":
                    values = 2 * values - 1
            result.append((one["scale"] * values + one["shift"]).to(kind))
        return result

    def grow(self, count):
        """At least `count` sets, as far as memory goes."""
        set_bytes = max(1, sum(one.numel() * one.element_size() for one in self.sets[0]))
        most = max(1, int(shared.MEMORY_SHARE * self.torch.cuda.mem_get_info()[0] / (2 * set_bytes)))
        count = min(count, len(self.sets) + most)
        while len(self.sets) < count:
            self.sets.append(self._make_set())

    def flush(self):
        self.flush_buffer.sum()


def events(torch, work):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    stop.record()
    stop.synchronize()
    return 1e3 * start.elapsed_time(stop)


def launches_for(torch, operands, call):
    """Launches whose batch is long enough to time; each with inputs of its own."""
    for _ in range(3):
        call(operands.sets[0])
    torch.cuda.synchronize()
    estimate_us = min(events(torch, lambda: call(operands.sets[0])) for _ in range(3))
    count = min(max(math.ceil(BATCH_US / max(estimate_us, 1.0)), shared.FEWEST_LAUNCHES), 64)
    operands.grow(count)
    return min(count, len(operands.sets))


def graph_of(torch, call, sets):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for one in sets:
            call(one)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept = []
    with torch.cuda.graph(graph):
        for one in sets:
            kept.append(call(one))
    return graph, kept


def sample(torch, operands, work, launches, seconds, cold):
    samples = []
    end = time.perf_counter() + seconds
    work()
    torch.cuda.synchronize()
    while len(samples) < shared.FEWEST_SAMPLES or (time.perf_counter() < end and len(samples) < shared.MOST_SAMPLES):
        if cold:
            operands.flush()
        samples.append(events(torch, work) / launches)
    return shared.summarize(samples, launches)


def same(torch, got, expected):
    """Whether results are those of the eager expression, as close as their types allow."""
    got = got if isinstance(got, (tuple, list)) else (got,)
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    if len(got) != len(expected):
        return False
    for one, other in zip(got, expected):
        if not one.dtype.is_floating_point:
            continue  # indices of equal values may differ
        if not torch.allclose(one.float(), other.float(), rtol=2e-2, atol=2e-2, equal_nan=True):
            return False
    return True


def by_calls(torch, operands, function, seconds):
    def call(one):
        return function(*one)

    launches = launches_for(torch, operands, call)
    order = list(range(launches))
    random.Random(operands.request["seed"]).shuffle(order)

    def work(cold):
        for index in order:
            call(operands.sets[index if cold else 0])

    return {
        name: sample(torch, operands, lambda cold=cold: work(cold), launches, seconds, cold)
        for name, cold in (("cold", True), ("warm", False))
    }


def by_graph(torch, operands, function, seconds):
    def call(one):
        return function(*one)

    launches = launches_for(torch, operands, call)
    result = {}
    for name, sets in (("cold", operands.sets[:launches]), ("warm", operands.sets[:1] * launches)):
        graph, kept = graph_of(torch, call, sets)
        result[name] = sample(torch, operands, graph.replay, launches, seconds, name == "cold")
        del graph, kept
    return result


# --- cuDNN's own operators, called by name ---


class Cudnn:
    HALF, FLOAT, NCHW = 2, 0, 0
    SOFTMAX_ACCURATE, SOFTMAX_CHANNEL = 1, 1
    REDUCE_ADD, NOT_PROPAGATE_NAN, NO_INDICES, INDICES_32 = 0, 0, 0, 0

    def __init__(self, torch):
        self.torch = torch
        for name in ("libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise shared.Missing("libcudnn is not on the loader's path")
        self.handle = ctypes.c_void_p()
        self.check(self.library.cudnnCreate(ctypes.byref(self.handle)))

    def check(self, status):
        if status != 0:
            raise shared.Missing(f"cuDNN refuses the operator (status {status})")

    def use_stream(self):
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        self.check(self.library.cudnnSetStream(self.handle, stream))

    def tensor(self, kind, dims, strides):
        descriptor = ctypes.c_void_p()
        self.check(self.library.cudnnCreateTensorDescriptor(ctypes.byref(descriptor)))
        self.check(
            self.library.cudnnSetTensor4dDescriptorEx(descriptor, ctypes.c_int(kind), *map(ctypes.c_int, dims + strides))
        )
        return descriptor

    @staticmethod
    def at(tensor):
        return ctypes.c_void_p(tensor.data_ptr())

    def softmax(self, constants):
        rows, columns = constants["rows"], constants["columns"]
        shape = self.tensor(self.HALF, [rows, columns, 1, 1], [columns, 1, 1, 1])
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def call(x):
            y = self.torch.empty_like(x)
            scaled = x if constants["scale"] == 1 else x * constants["scale"]  # cuDNN's has no factor inside
            self.use_stream()
            self.check(
                self.library.cudnnSoftmaxForward(
                    self.handle, self.SOFTMAX_ACCURATE, self.SOFTMAX_CHANNEL, ctypes.byref(one), shape, self.at(scaled),
                    ctypes.byref(zero), shape, self.at(y),
                )
            )
            return y

        return call

    def sums(self, constants, along_rows):
        rows, columns = constants["rows"], constants["columns"]
        torch = self.torch
        source = self.tensor(self.HALF, [1, 1, rows, columns], [rows * columns, rows * columns, columns, 1])
        out = [1, 1, rows, 1] if along_rows else [1, 1, 1, columns]
        count = rows if along_rows else columns
        target = self.tensor(self.FLOAT, out, [count, count, out[3], 1])
        reduce = ctypes.c_void_p()
        self.check(self.library.cudnnCreateReduceTensorDescriptor(ctypes.byref(reduce)))
        self.check(
            self.library.cudnnSetReduceTensorDescriptor(
                reduce, self.REDUCE_ADD, self.FLOAT, self.NOT_PROPAGATE_NAN, self.NO_INDICES, self.INDICES_32
            )
        )
        size = ctypes.c_size_t()
        self.check(
            self.library.cudnnGetReductionWorkspaceSize(self.handle, reduce, source, target, ctypes.byref(size))
        )
        workspace = torch.empty(max(1, size.value), dtype=torch.uint8, device="cuda")
        scale, zero = ctypes.c_float(constants["scale"]), ctypes.c_float(0)

        def call(x):
            y = torch.empty(count, dtype=torch.float32, device="cuda")
            self.use_stream()
            self.check(
                self.library.cudnnReduceTensor(
                    self.handle, reduce, None, ctypes.c_size_t(0), self.at(workspace), size, ctypes.byref(scale), source,
                    self.at(x), ctypes.byref(zero), target, self.at(y),
                )
            )
            return y

        return call

    def transpose(self, constants):
        rows, columns = constants["rows"], constants["columns"]
        source = self.tensor(self.HALF, [1, 1, rows, columns], [rows * columns, rows * columns, columns, 1])
        target = self.tensor(self.HALF, [1, 1, rows, columns], [rows * columns, rows * columns, 1, rows])
        one, zero = ctypes.c_float(1), ctypes.c_float(0)

        def call(x):
            y = self.torch.empty(columns, rows, dtype=x.dtype, device="cuda")
            self.use_stream()
            self.check(
                self.library.cudnnTransformTensor(
                    self.handle, ctypes.byref(one), source, self.at(x), ctypes.byref(zero), target, self.at(y)
                )
            )
            return y

        return call

    def operator(self, name, constants):
        if name == "softmax":
            return self.softmax(constants)
        if name in ("row_sum", "column_sum"):
            return self.sums(constants, name == "row_sum")
        if name == "transpose":
            return self.transpose(constants)
        raise shared.Missing(f"no cuDNN operator of the name '{name}' is known")


def subjects_of(torch, operands, request):
    """Name and how to measure it; each makes what it needs when it is measured."""
    eager = operands.function
    seconds = request["seconds"]
    yield "torch-eager", lambda: (eager, by_calls(torch, operands, eager, seconds))

    def compiled(measured, **options):
        torch._dynamo.reset()
        function = torch.compile(eager, **options)
        for one in operands.sets[:2]:
            for _ in range(3):  # reduce-overhead records its graphs in the first calls
                function(*one)
        return function, measured(torch, operands, function, seconds)

    yield "torch-compile", lambda: compiled(by_calls)
    yield "torch-reduce-overhead", lambda: compiled(by_calls, mode="reduce-overhead")
    yield "torch-cuda-graph", lambda: (eager, by_graph(torch, operands, eager, seconds))
    yield "torch-compile-graph", lambda: compiled(by_graph)
    if "cudnn" in request["baselines"]:

        def cudnn():
            function = Cudnn(torch).operator(request["baselines"]["cudnn"], request["constants"])
            return function, by_graph(torch, operands, function, seconds)

        yield "cudnn", cudnn


def measure(torch, request):
    operands = Operands(torch, request)
    expected = operands.function(*operands.sets[0])
    subjects = []
    start = time.monotonic()
    for name, run in subjects_of(torch, operands, request):
        subject = {"subject": name}
        try:
            if time.monotonic() - start > request.get("limit_seconds", math.inf):
                raise shared.Missing("the others took all the time there was")
            function, times = run()
            if same(torch, function(*operands.sets[0]), expected):
                subject.update(**times, interleaved=False, detail=f"torch {torch.__version__}; {OTHER_PROCESS}")
            else:
                subject["not_run"] = "its results are not those of the eager expression"
        except Exception as error:  # a compiler that is missing, an operator that is refused: the others still run
            words = " ".join(line.strip() for line in str(error).strip().splitlines()[:2])
            subject["not_run"] = f"{type(error).__name__}: {words}"[:200]
        subjects.append(subject)
    return subjects


def main():
    request = read_request(sys.stdin.read())
    try:
        torch = shared.open_torch(request["device"])
        torch.manual_seed(request["seed"])
        with torch.no_grad():
            subjects = measure(torch, request)
    except shared.Missing as error:
        print(f"torch_task: {error}", file=sys.stderr)
        return 3
    except (RuntimeError, SyntaxError, NameError) as error:
        print(f"torch_task: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 3
    report = {
        "task": request["task"],
        "subjects": subjects,
        "measured": OTHER_PROCESS,
        "device": torch.cuda.get_device_name(request["device"]),
        "versions": {
            "torch": str(torch.__version__),
            "torch-cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            "python": sys.version.split()[0],
        },
    }
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The PyTorch operator: results for all strides and batches, gradients, opcheck, torch.compile, CUDA graphs, threads.

Run:  python3 -m unittest -v python/tests/test_matmul.py   with the package on the path. Without a GPU the cases are
reported as skipped; WARPSMITH_TORCH_HOST=1 says that the extension was built for host tensors.
"""

import concurrent.futures
import itertools
import os
import threading
import unittest

try:
    import torch
    import warpsmith

    MISSING = None
except ImportError as error:
    MISSING = str(error)

HOST = os.environ.get("WARPSMITH_TORCH_HOST") == "1"
if MISSING is None and not HOST and not torch.cuda.is_available():
    MISSING = "no CUDA device"
DEVICE = "cpu" if HOST else "cuda"
MANTISSA = {"float16": 10, "bfloat16": 7}


def random(*shape, dtype=None, seed=1):
    generator = torch.Generator("cpu").manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype or torch.float16).to(DEVICE)


def excess(result, a, b):
    """Largest error over what FP32 sums and one rounding may have: half a unit in the last place, gamma(k) sum |a||b|."""
    exact = a.double() @ b.double()
    k = a.shape[-1]
    gamma = k * 2.0**-23 / (1 - k * 2.0**-23)
    mantissa = MANTISSA[str(result.dtype).rsplit(".", 1)[-1]]
    least = -14 if mantissa == 10 else -126
    exponent = torch.frexp(exact.abs().clamp_min(2.0**least))[1] - 1
    allowed = torch.ldexp(torch.ones_like(exact), exponent - mantissa - 1) + gamma * (a.double().abs() @ b.double().abs())
    worst = ((result.double() - exact).abs() / allowed).max().item() if result.numel() else 0.0
    return worst


@unittest.skipIf(MISSING is not None, MISSING or "")
class MatmulTest(unittest.TestCase):
    def check(self, a, b):
        result = warpsmith.matmul(a, b)
        self.assertEqual(result.shape, (a @ b).shape if not HOST else torch.matmul(a.float(), b.float()).shape)
        self.assertEqual(result.dtype, a.dtype)
        self.assertTrue(result.is_contiguous())
        self.assertLessEqual(excess(result, a, b), 1.0)

    def test_all_layouts_and_types(self):
        for dtype, (m, n, k) in itertools.product([torch.float16, torch.bfloat16],
                                                  [(64, 96, 128), (1, 40, 64), (33, 1, 7), (5, 3, 1), (17, 29, 31)]):
            for transpose_a, transpose_b in itertools.product([False, True], repeat=2):
                a = random(k, m, dtype=dtype).t() if transpose_a else random(m, k, dtype=dtype)
                b = random(n, k, dtype=dtype).t() if transpose_b else random(k, n, dtype=dtype)
                with self.subTest(dtype=dtype, m=m, n=n, k=k, transpose_a=transpose_a, transpose_b=transpose_b):
                    self.check(a, b)

    def test_any_strides(self):
        big = random(80, 96)
        self.check(big[3:35, 5:37], random(32, 24))  # rows farther apart than they are long, odd alignment
        self.check(big[::2, :32], random(32, 24))
        self.check(big[:40, ::3], random(32, 24))  # neither rows nor columns contiguous: copied
        self.check(random(1, 32).expand(8, 32), random(32, 24))  # overlapping rows: copied
        self.check(random(32, 24), big[:24, :16])
        self.check(random(4, 24)[:, :16], random(1, 16).t().expand(16, 5))

    def test_batches(self):
        self.check(random(3, 16, 24), random(3, 24, 8))
        self.check(random(3, 16, 24), random(24, 8))  # one product over all rows
        self.check(random(16, 24), random(3, 24, 8))
        self.check(random(3, 24, 16).mT, random(24, 8))
        self.check(random(3, 16, 24), random(3, 8, 24).mT)
        self.check(random(2, 3, 16, 24), random(3, 24, 8))
        self.check(random(2, 1, 16, 24), random(1, 3, 24, 8))
        self.check(random(16, 3, 24).transpose(0, 1), random(3, 24, 8))  # batches interleaved with rows
        self.check(random(2, 5, 16, 24).transpose(0, 1), random(24, 8))
        self.check(random(4, 1, 24), random(24, 8))

    def test_empty(self):
        self.assertEqual(warpsmith.matmul(random(0, 8), random(8, 4)).shape, (0, 4))
        self.assertEqual(warpsmith.matmul(random(3, 8), random(8, 0)).shape, (3, 0))
        self.assertTrue(torch.equal(warpsmith.matmul(random(3, 0), random(0, 4)), torch.zeros_like(random(3, 4))))
        self.assertEqual(warpsmith.matmul(random(0, 3, 8), random(8, 4)).shape, (0, 3, 4))

    def test_bad_input(self):
        a, b = random(8, 16), random(16, 8)
        # Whole messages, numbers too: a second C++ runtime in the extension loses those, or crashes.
        for bad, message in [((a, random(8, 8)), r"sizes \[8, 16\] and \[8, 8\] do not fit"),
                             ((a, b.float()), "differ in type: Half and Float"),
                             ((a.float(), b.float()), "expected float16 or bfloat16, got Float"),
                             ((a[0], b), "got 1 and 2 dimensions"),
                             ((a, b.bfloat16()), "differ in type: Half and BFloat16")]:
            with self.assertRaisesRegex(RuntimeError, message):
                warpsmith.matmul(*bad)
        if not HOST:
            with self.assertRaisesRegex(RuntimeError, "operands are on cuda:0 and cpu"):
                warpsmith.matmul(a, b.cpu())

    def test_version(self):
        self.assertRegex(warpsmith.__version__, r"^\d+\.\d+\.\d+$")

    @unittest.skipIf(HOST, "kernels need a CUDA device")
    def test_own_kernels_run(self):
        told = []
        for m, n, k in [(64, 4096, 4096), (512, 512, 512), (1024, 1024, 1024), (4096, 4096, 4096)]:
            a, b = random(m, k), random(n, k).t()
            told.append(warpsmith.explain(a, b))
            self.assertEqual([told[-1]["problem"][size] for size in "mnk"], [m, n, k])
            self.check(a, b)
            self.assertEqual(warpsmith.explain(a, b)["runs"], told[-1]["runs"])  # and that is what ran
        self.assertIn("kernel", [each["runs"] for each in told], told)

    @unittest.skipIf(HOST, "kernels need a CUDA device")
    def test_explain(self):
        odd = warpsmith.explain(random(64, 80)[:, 1:65], random(64, 64))
        self.assertEqual((odd["runs"], odd["recipe"]), ("cublaslt", None))
        batch = warpsmith.explain(random(3, 16, 24), random(3, 24, 8))
        self.assertEqual((batch["runs"], batch["problem"]["batch_count"]), ("cublaslt", 3))
        self.assertEqual(warpsmith.explain(random(3, 16, 24), random(24, 8))["problem"]["m"], 48)
        self.assertEqual(warpsmith.explain(random(0, 8), random(8, 4))["runs"], "nothing")
        self.assertEqual(warpsmith.explain(random(3, 0), random(0, 4))["runs"], "nothing")

    def test_gradients(self):
        for a_shape, b_shape in [((16, 24), (24, 8)), ((3, 16, 24), (3, 24, 8)), ((3, 16, 24), (24, 8)),
                                 ((2, 1, 16, 24), (3, 24, 8))]:
            a = random(*a_shape).requires_grad_()
            b = random(*b_shape, seed=2).requires_grad_()
            weight = random(*torch.matmul(a.float(), b.float()).shape, seed=3)
            (warpsmith.matmul(a, b) * weight).sum().backward()
            x, y = a.detach().double().requires_grad_(), b.detach().double().requires_grad_()
            (torch.matmul(x, y) * weight.double()).sum().backward()
            for got, exact in [(a.grad, x.grad), (b.grad, y.grad)]:
                self.assertEqual(got.shape, exact.shape)
                self.assertLess(((got.double() - exact).abs() / exact.abs().max()).max().item(), 2e-3)

    def test_opcheck(self):
        for a, b in [(random(16, 24), random(24, 8)), (random(3, 16, 24), random(24, 8)),
                     (random(8, 24).requires_grad_(), random(8, 24).t().detach().requires_grad_())]:
            torch.library.opcheck(torch.ops.warpsmith.matmul.default, (a, b))

    def test_compile(self):
        def layer(x, w, v):
            return warpsmith.matmul(torch.nn.functional.silu(warpsmith.matmul(x, w)), v) + 1

        x, w, v = random(16, 24), random(24, 32).requires_grad_(), random(32, 8, seed=2)
        backend = "aot_eager" if HOST else "inductor"  # the generator of GPU code needs a GPU
        compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
        for rows in [16, 48, 7]:
            x = random(rows, 24)
            wanted, got = layer(x, w, v), compiled(x, w, v)
            self.assertLess((wanted.float() - got.float()).abs().max().item(), 0.05)
        got.float().sum().backward()
        self.assertEqual(w.grad.shape, w.shape)

    @unittest.skipIf(HOST, "graphs need a CUDA device")
    def test_cuda_graph(self):
        a, b = random(128, 256), random(256, 64)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            warpsmith.matmul(a, b)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = warpsmith.matmul(a, b)
        for seed in range(3):
            a.copy_(random(128, 256, seed=seed + 10))
            graph.replay()
            self.assertLessEqual(excess(c, a, b), 1.0)

    def test_devices(self):
        if HOST or torch.cuda.device_count() < 2:
            self.skipTest("fewer than two CUDA devices")
        operands = [[x.to(f"cuda:{i}") for x in (random(64, 96), random(96, 32))] for i in range(torch.cuda.device_count())]

        def work(device):
            for _ in range(20):
                result = warpsmith.matmul(*operands[device])
                self.assertEqual(result.device.index, device)
                self.assertLessEqual(excess(result, *operands[device]), 1.0)

        for device in range(len(operands)):  # the current device is the first one all the time
            work(device)
        self.assertEqual(torch.cuda.current_device(), 0)
        with concurrent.futures.ThreadPoolExecutor(2 * len(operands)) as pool:
            list(pool.map(work, [*range(len(operands))] * 2))
        with self.assertRaisesRegex(RuntimeError, "operands are on cuda:0 and cuda:1"):
            warpsmith.matmul(operands[0][0], operands[1][1])

    def test_threads(self):
        a, b = random(64, 96), random(96, 32)
        wanted = warpsmith.matmul(a, b)
        wrong = []

        def work():
            for _ in range(50):
                if HOST:
                    got = warpsmith.matmul(a, b)
                else:
                    with torch.cuda.stream(torch.cuda.Stream()):
                        got = warpsmith.matmul(a, b)
                        torch.cuda.current_stream().synchronize()
                if not torch.equal(got, wanted):
                    wrong.append(1)

        if not HOST:
            torch.cuda.synchronize()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()

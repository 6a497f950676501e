#!/usr/bin/env python3
"""`warpsmith serve` on a GPU: good, wrong, crashing, greedy and malformed candidates, pairs, kill -9, SIGTERM.

  bench/serve_gpu.py --program stage/warpsmith [--hang]

Prints one JSON object with every verdict, those alone that were there where something broke; exit code 1 when one is not
what it must be. All GPUs that are visible serve. --hang also submits a kernel that
never ends, which takes as long as the gates' time limit.
"""

import argparse
import atexit
import base64
import http.client
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROBLEM = "512x512x512 nn f16 f32"
TOKEN = "token-of-the-gpu-test-012345"
WAIT = 240

DESCRIPTOR = {"warpsmith_candidate": 1, "layouts": ["nn"], "kernels": [
    {"entry": "kernel", "grid": ["m"], "block": [128],
     "arguments": [{"pointer": "a"}, {"pointer": "b"}, {"pointer": "c"}, {"int32": "n"}, {"int32": "k"}]}]}


def naive(line):
    """A slow kernel, right with an empty `line`; one block a row of C."""
    return f"""
__device__ float number(unsigned short bits) {{
  float value;
  asm("{{.reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h;}}" : "=f"(value) : "h"(bits));
  return value;
}}
extern "C" __global__ void kernel(const unsigned short* a, const unsigned short* b, unsigned short* c, int n, int k) {{
  const int row = blockIdx.x;
  for (int column = threadIdx.x; column < n; column += 128) {{
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += number(a[row * k + i]) * number(b[i * n + column]);
    {line}
    unsigned short bits;
    asm("{{.reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h;}}" : "=h"(bits) : "f"(sum));
    c[row * n + column] = bits;
  }}
}}
"""


def source(text, descriptor=None):
    return {"source": text, "descriptor": descriptor or DESCRIPTOR}


def example(name):
    folder = ROOT / "examples" / "candidates"
    return source((folder / f"{name}.cu").read_text(), json.loads((folder / f"{name}.json").read_text()))


# name -> (candidate, kinds that it may get)
def candidates(hang):
    include = '#include "/etc/passwd"\n'
    cases = {
        "recipe": ({"recipe": "sm90 tile=64x32x64 stages=8 consumers=1"}, {"accepted"}),
        "mma_64x64": (example("mma_64x64"), {"accepted"}),
        "split_k": (example("split_k"), {"accepted"}),
        "naive": (source(naive("")), {"accepted"}),
        "wrong": (source(naive("if (row == 7) sum += 1;")), {"wrong"}),
        "crashing": (source(naive("if (row == 7) *reinterpret_cast<volatile int*>(8) = 1;")), {"crashed"}),
        "trapping": (source(naive("if (row == 7) __trap();")), {"crashed"}),
        "including": (source(include + naive("")), {"compile-error"}),
        "printing": (source('extern "C" __device__ int printf(const char*, ...);\n' + naive('if (row == 7) printf("x");')),
                     {"compile-error"}),
        "not CUDA": (source("I would rather not."), {"compile-error"}),
        "inapplicable": (source(naive(""), dict(DESCRIPTOR, requires=["m == 3"])), {"illegal"}),
    }
    if hang:
        cases["hanging"] = (source(naive("while (row == 7) __nanosleep(1000);")), {"timed-out"})
    return cases


class Server:
    def __init__(self, program, home):
        self.program, self.home, self.port, self.problems = program, home, 0, []
        self.start([])

    def start(self, more):
        environment = dict(os.environ, WARPSMITH_DATA=f"{self.home}/data", WARPSMITH_CACHE=f"{self.home}/cache",
                           WARPSMITH_SERVE_TOKEN=TOKEN)
        self.process = subprocess.Popen([self.program, "serve", "--gpus", "all", "--port", str(self.port), *more],
                                        stdout=subprocess.PIPE, env=environment, text=True)
        atexit.register(self.process.kill)  # whatever happens here
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise SystemExit("serve_gpu.py: the server did not start")
        self.port = int(found.group(1))

    def ask(self, method, path, body=None, authorization=f"Bearer {TOKEN}"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * WAIT)
        headers = {"Content-Type": "application/json", "Authorization": authorization}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def expect(self, fine, what):
        if not fine:
            self.problems.append(what)


def stopped(*_):
    raise TimeoutError("stopped by a signal")


def exercise(server, cases, results):
    """Everything that is asked of the server, in order; its answers, by name, into `results`."""
    batch = [dict(candidate, problem=PROBLEM) for candidate, _ in cases.values()]
    status, answer = server.ask("POST", "/v1/candidates", {"candidates": batch, "wait_seconds": WAIT})
    server.expect(status == 200, f"status {status} of the batch")
    results.update(zip(cases, answer["results"]))
    for name, (_, kinds) in cases.items():
        verdict = results[name].get("verdict", {}).get("kind", results[name].get("error", "none"))
        server.expect(verdict in kinds, f"{name}: {verdict}, {results[name].get('text')}")
        # A reward is less for longer sources: a slow kernel's may be below zero, but not below a wrong one's.
        server.expect((results[name].get("speedup", 0) > 0) == (verdict == "accepted"), f"{name}: speed-up")
    scores = {accepted: [results[name].get("reward", -math.inf) for name, (_, kinds) in cases.items()
                         if (kinds == {"accepted"}) == accepted] for accepted in (True, False)}
    server.expect(min(scores[True]) > max(scores[False]), f"rewards: {scores}")
    server.expect("root:" not in json.dumps(answer), "a file was read")

    # The protocol: the same candidate in an answer, its token in the URL's way.
    text = ("## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```cuda\n" + naive("") + "```\n```json\n"
            + json.dumps(DESCRIPTOR) + "\n```<|im_end|>")
    basic = "Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode()
    status, rewards = server.ask("POST", "/get_reward", {"query": ["Q" + text, "prose"], "prompts": ["Q", None],
                                                         "labels": [PROBLEM, PROBLEM]}, basic)
    server.expect(status == 200 and rewards.get("verdicts") == ["accepted", "malformed"], f"get_reward: {rewards}")

    # Killed with work in its queue, started again.
    again = [dict(item, problem="256x512x512 nn f16 f32") for item in batch[1:4]]
    status, accepted = server.ask("POST", "/v1/candidates", {"candidates": again})
    server.process.kill()
    server.process.wait()
    server.start(["--paired"])
    for result in accepted["results"]:
        status, answer = server.ask("GET", f"/v1/candidates/{result['id']}?wait={WAIT}")
        server.expect(status == 200 and answer["state"] == "done", f"lost after the kill: {answer}")
        results["after kill -9: " + result["id"][:12]] = answer
    status, answer = server.ask("POST", "/v1/candidates", dict(batch[1], wait_seconds=WAIT))
    server.expect(answer.get("duplicate") and answer.get("measured") == 1, f"a duplicate was measured again: {answer}")
    server.process.terminate()
    server.expect(server.process.wait(120) == 0, "exit code after SIGTERM")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path)
    parser.add_argument("--hang", action="store_true")
    arguments = parser.parse_args()
    results, machine, names = {}, None, []
    signal.signal(signal.SIGTERM, stopped)
    with tempfile.TemporaryDirectory() as home:
        server = Server(str(arguments.program.resolve()), home)
        try:
            _, devices = server.ask("GET", "/v1/devices")
            if devices["devices"][0]["target"] == "cpu":
                raise SystemExit("serve_gpu.py: there is no GPU here")
            machine = devices["devices"][0]["machine"]["name"]
            names = [device["name"] for device in devices["devices"]]
            exercise(server, candidates(arguments.hang), results)
        except (OSError, KeyError, ValueError, http.client.HTTPException, subprocess.TimeoutExpired) as error:
            server.problems.append(f"broken off: {type(error).__name__}: {error}")
        finally:
            server.process.kill()
            server.process.wait()
    rows = {name: {"verdict": result.get("verdict", {}).get("kind"), "text": result.get("text", result.get("error")),
                   **{key: result.get(key) for key in ("device", "reward", "speedup", "reference", "reference_us", "paired")}}
            for name, result in results.items()}
    print(json.dumps({"machine": machine, "devices": names, "problems": server.problems, "results": rows}, indent=2))
    return 1 if server.problems else 0


if __name__ == "__main__":
    sys.exit(main())

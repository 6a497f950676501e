#!/usr/bin/env python3
"""Puts `warpsmith serve` under load on the CPU target and writes results/server-load.json.

  bench/serve_load.py [--build build/test] [--clients 64] [--submissions 10000] [--output results/server-load.json]

Many clients submit few distinct candidates (good, illegal, malformed ones, and, through a worker that swaps kernels,
crashing and wrong ones), as JSON or as completions, waiting in the request or afterwards. The distinct ones come up one
by one, so that measuring goes on all the time. In the middle, right after it has accepted a batch of new ones, the server is
killed with SIGKILL and started again. A client asks until it has its answer. Every answer is checked: the verdict's kind, the reward from the verdict by the
formula, and the same reward whenever the same candidate is answered. Exit code 1: something was wrong, lost or measured
twice, or the server's memory grew by more than a quarter.
"""

import argparse
import collections
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROBLEM = "48x40x56 nn f16 f32"
TOKEN = "token-of-the-load-test-0123"
HEADERS = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
MOST_GROWTH = 1.25  # of the server's memory, from when it has served some of everything to the end
WAIT = 300  # seconds that a request may wait
PATIENCE = 900  # seconds until a client gives up


def make_candidates(rng):
    """(recipe, kind that it must get), distinct; at most 300. Run-time knobs, so that one compile serves them all."""
    candidates = []
    blocks = [8, 16, 32, 48, 64, 96, 128, 192, 256, 384]
    base = "cpu simd=avx2 tile=4x1"
    for rows in (1, 2, 4, 6, 8):
        for depth in blocks:
            candidates.append((f"{base} block={rows}xallx{depth}", "accepted"))
            candidates.append((f"{base} block={rows}xallx{depth} prefetch_a=depth", "accepted"))
            candidates.append((f"{base} block={rows}xallx{depth} preload=all", "accepted"))
    for rows in (1, 2, 4, 6):
        for depth in blocks:
            candidates.append((f"{base} block={rows}xallx{depth} preload=b", "wrong"))
    for rows in (1, 2, 4):
        for depth in blocks:
            candidates.append((f"{base} block={rows}xallx{depth} preload=pages", "crashed"))
            candidates.append((f"{base} block={rows}xallx{depth} threads=2 split=n", "illegal"))
    for number in range(40):
        candidates.append((f"cpu tile={number}y{number}", "malformed"))
    rng.shuffle(candidates)
    return candidates


def completion(recipe):
    return f"## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\n{recipe}\n```"


class Server:
    """The program in a directory of its own, beside a worker that swaps kernels."""

    def __init__(self, build, home):
        self.home = pathlib.Path(home)
        shutil.copy2(build / "bin" / "warpsmith", self.home / "warpsmith")
        os.symlink(build / "bin" / "warpsmith-misbehaving-worker", self.home / "warpsmith-worker-cpu")
        self.log = open(self.home / "log", "ab")
        self.port = 0
        self.start()

    def start(self):
        arguments = [str(self.home / "warpsmith"), "serve", "--target", "cpu", "--threads", "1", "--effort", "20ms",
                     "--port", str(self.port)]
        environment = dict(os.environ, WARPSMITH_DATA=str(self.home / "data"), WARPSMITH_CACHE=str(self.home / "cache"),
                           WARPSMITH_SERVE_TOKEN=TOKEN)
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=self.log, env=environment, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if not found:
            raise SystemExit(f"serve_load.py: the server did not start; see {self.home / 'log'}")
        self.port = int(found.group(1))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.terminate()
        return self.process.wait(120)

    def rss_mb(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


class Load:
    def __init__(self, server, candidates, submissions, seed):
        self.server, self.candidates = server, candidates
        self.lock = threading.Lock()
        rng = random.Random(seed)
        # The candidate of each submission: the newest ones are met first when the pool has grown to them.
        self.plan = [rng.randrange(max(1, min(len(candidates), 8 + number * len(candidates) // (submissions * 8 // 10))))
                     for number in range(submissions)]
        self.ways = rng.choices(["wait", "later", "reward"], [70, 20, 10], k=submissions)
        self.next = 0
        self.latencies, self.known_latencies = [], []
        self.answered = self.retries = 0
        self.wrong = []
        self.accepted = set()  # ids that the server has said it has
        self.rewards = {}
        self.coefficients = None

    def take(self):
        with self.lock:
            if self.next == len(self.plan):
                return None
            self.next += 1
            return self.next - 1

    def exchange(self, connection, method, path, body=None):
        connection.request(method, path, json.dumps(body) if body is not None else None, HEADERS)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def submit(self, connection, recipe, way):
        """One attempt: the final answer; None: not yet, ask again."""
        if way == "reward":
            status, answer = self.exchange(connection, "POST", "/get_reward",
                                           {"query": [completion(recipe)], "labels": [PROBLEM]})
            return (status, answer) if status not in (429, 503) else None
        body = {"problem": PROBLEM, "recipe": recipe}
        if way == "wait":
            body["wait_seconds"] = WAIT
        status, answer = self.exchange(connection, "POST", "/v1/candidates", body)
        if status in (200, 202):
            with self.lock:
                self.accepted.add(answer["id"])
        while status == 202:
            known = answer.get("duplicate", False)
            status, answer = self.exchange(connection, "GET", f"/v1/candidates/{answer['id']}?wait={WAIT}")
            answer["duplicate"] = known
        return (status, answer) if status not in (429, 503) else None

    def complaint(self, recipe, kind, way, status, answer):
        """What is wrong with an answer; None: nothing."""
        alpha, beta = self.coefficients
        if kind == "malformed":
            if way == "reward":
                good = status == 200 and answer["verdicts"] == ["malformed"] and answer["rewards"][0] < 0
            else:
                good = status == 422 and "error" in answer
            return None if good else f"status {status}: {answer}"
        if status != 200:
            return f"status {status}: {answer}"
        if way == "reward":
            got, reward = answer["verdicts"][0], answer["rewards"][0]
            speedup, difference = answer["extra_logs"]["speedup"][0], answer["extra_logs"]["difference"][0]
            tokens = answer["extra_logs"]["tokens"][0]
            if kind == "illegal":  # found while the completion is read
                kind = "malformed"
                recipe = "completion of " + recipe
        else:
            got, reward = answer["verdict"]["kind"], answer["reward"]
            tokens = answer["tokens"]
            speedup, difference = 0.0, 1.0
            if got == "accepted":
                speedup = answer["reference_us"] / answer["verdict"]["measurement"]["cold"]["median_us"]
                difference = max(gate["worst_error"] for gate in answer["verdict"]["gates"]
                                 if gate["gate"].startswith("bound/"))
        if got != kind:
            return f"{got}, not {kind}: {answer.get('text', answer)}"
        if abs(reward - (speedup - alpha * difference - beta * tokens)) > 1e-9 * max(1, abs(reward)):
            return f"reward {reward} does not follow from the verdict"
        with self.lock:
            if self.rewards.setdefault(recipe, reward) != reward:
                return f"reward {reward} was {self.rewards[recipe]} before"
        return None

    def client(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * WAIT)
        while (number := self.take()) is not None:
            recipe, kind = self.candidates[self.plan[number]]
            begin, result = time.monotonic(), None
            while result is None and time.monotonic() - begin < PATIENCE:
                try:
                    result = self.submit(connection, recipe, self.ways[number])
                except (OSError, http.client.HTTPException):
                    connection.close()
                if result is None:
                    with self.lock:
                        self.retries += 1
                    time.sleep(0.2)
            milliseconds = 1e3 * (time.monotonic() - begin)
            if result is None:
                continue
            complaint = self.complaint(recipe, kind, self.ways[number], *result)
            with self.lock:
                self.answered += 1
                self.latencies.append(milliseconds)
                if self.plan[number] < len(self.candidates) // 8 and result[1].get("duplicate"):
                    self.known_latencies.append(milliseconds)
                if complaint:
                    self.wrong.append(f"{recipe}: {complaint}")
        connection.close()

    def burst(self, count):
        """A batch of candidates that come up later, accepted and not waited for."""
        at = max(self.plan[:self.next]) + 1
        fresh = [recipe for recipe, kind in self.candidates[at:] if kind != "malformed"][:count]
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * WAIT)
        _, answer = self.exchange(connection, "POST", "/v1/candidates",
                                  {"candidates": [{"problem": PROBLEM, "recipe": recipe} for recipe in fresh]})
        connection.close()
        with self.lock:
            self.accepted.update(result["id"] for result in answer["results"])

    def lost(self):
        """Of what was accepted before the kill: what the server that runs now does not answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=2 * WAIT)
        lost = 0
        for identity in sorted(self.accepted):
            status, answer = self.exchange(connection, "GET", f"/v1/candidates/{identity}?wait={WAIT}")
            if status != 200 or answer["state"] != "done":
                lost += 1
        return lost


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def remeasured(archive):
    """Verdicts in the archive beyond the first of each candidate, and how many candidates there are."""
    with sqlite3.connect(archive) as database:
        counts = [row[0] for row in database.execute("SELECT count(*) FROM attempts GROUP BY scope, recipe")]
    return sum(counts) - len(counts), len(counts)


def unfinished_jobs(queue):
    with sqlite3.connect(queue) as database:
        return database.execute("SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')").fetchone()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "test")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "results" / "server-load.json")
    arguments = parser.parse_args()

    candidates = make_candidates(random.Random(arguments.seed))
    with tempfile.TemporaryDirectory(prefix="warpsmith-load-") as home:
        server = Server(arguments.build.resolve(), home)
        load = Load(server, candidates, arguments.submissions, arguments.seed)
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        _, devices = load.exchange(connection, "GET", "/v1/devices")
        connection.close()
        load.coefficients = devices["alpha"], devices["beta"]
        first_rss = server.rss_mb()
        begin = time.monotonic()
        clients = [threading.Thread(target=load.client) for _ in range(arguments.clients)]
        for client in clients:
            client.start()

        def reached(share):
            while load.answered < share * arguments.submissions and any(client.is_alive() for client in clients):
                time.sleep(0.01)

        reached(0.5)
        rss_before_kill = server.rss_mb()
        load.burst(40)
        server.kill()
        unfinished = unfinished_jobs(pathlib.Path(home) / "data" / "serve.sqlite")
        with load.lock:
            accepted_before_kill = len(load.accepted)
        server.start()
        reached(0.55)  # the new process has served some of everything
        rss_start = server.rss_mb()
        for client in clients:
            client.join()
        seconds = time.monotonic() - begin
        rss_end = server.rss_mb()
        lost = load.lost()
        exit_code = server.end()
        again, distinct = remeasured(pathlib.Path(home) / "data" / "archive.sqlite")

    by_kind = collections.Counter(kind for _, kind in candidates)
    machine = devices["devices"][0]["machine"]
    result = {
        "submitted": arguments.submissions, "answered": load.answered, "wrong": len(load.wrong),
        "duplicates_remeasured": again, "p50_ms": round(statistics.median(load.latencies), 2),
        "p99_ms": round(percentile(load.latencies, 0.99), 2), "rss_mb_start": round(rss_start, 1),
        "rss_mb_end": round(rss_end, 1), "lost_after_kill": lost,
        "clients": arguments.clients, "distinct": len(set(load.plan)), "distinct_by_kind": dict(sorted(by_kind.items())),
        "measured": distinct, "accepted_before_kill": accepted_before_kill,
        "unfinished_at_kill": unfinished, "retries": load.retries,
        "known_p50_ms": round(percentile(load.known_latencies, 0.5), 2),
        "known_p99_ms": round(percentile(load.known_latencies, 0.99), 2),
        "seconds": round(seconds, 1), "rss_mb_first_start": round(first_rss, 1),
        "rss_mb_before_kill": round(rss_before_kill, 1), "exit_code_after_sigterm": exit_code, "problem": PROBLEM,
        "target": "cpu", "machine": machine["name"], "cpus": os.cpu_count(), "seed": arguments.seed,
        "commit": subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"],
                                 capture_output=True, text=True).stdout.strip(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    for line in load.wrong[:20]:
        print("wrong:", line, file=sys.stderr)
    flat = rss_end <= rss_start * MOST_GROWTH
    good = (load.answered == arguments.submissions and not load.wrong and again == 0 and lost == 0 and exit_code == 0
            and flat)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""The reward functions for verl and TRL, called as those packages call them, against a server of this test's own.

Run:  python3 python/tests/test_rewards.py
"""

import ast
import http.server
import importlib.util
import inspect
import json
import os
import pathlib
import sys
import threading
import types
import unittest

REWARDS = pathlib.Path(__file__).resolve().parent.parent / "rewards"


def load(name):
    """As verl does: a module from a file, off the path."""
    spec = importlib.util.spec_from_file_location(name, REWARDS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server(http.server.BaseHTTPRequestHandler):
    """Answers from `script` (status, headers) while it lasts, then with rewards that count the queries' letters."""

    script, requests = [], []  # a step's third part, if any, is its body; the length is as of a whole one

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append((self.path, dict(self.headers), body))
        status, headers, *cut = self.script.pop(0) if self.script else (200, {})
        count = len(body["query"])
        answer = {"error": "not now"}
        if status == 200:
            answer = {"rewards": [float(len(query)) for query in body["query"]], "scores": [0.5] * count,
                      "extra_logs": {"accepted": [1] * count, "speedup": [2.0] * count}}
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        text = json.dumps(answer).encode()
        if cut:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(cut[0] if cut else text)

    def log_message(self, *_):
        pass


class RewardTest(unittest.TestCase):
    def setUp(self):
        Server.script, Server.requests = [], []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        os.environ["WARPSMITH_SERVE_URL"] = f"http://127.0.0.1:{self.server.server_port}/"
        os.environ["WARPSMITH_SERVE_TIMEOUT"] = "5"
        os.environ["http_proxy"] = "http://127.0.0.1:9"  # a proxy is not for this server
        os.environ.pop("WARPSMITH_SERVE_TOKEN", None)

    def test_verl_calls_with_these_keywords(self):
        compute_score = load("verl_reward").compute_score
        score = compute_score(data_source="warpsmith", solution_str="abc", ground_truth="64x64x64",
                              extra_info={"index": 3}, reward_router_address=None)
        self.assertEqual(score, {"score": 3.0, "accepted": 1, "speedup": 2.0})
        self.assertEqual(Server.requests[0][0], "/get_reward")
        self.assertEqual(Server.requests[0][2], {"query": ["abc"], "labels": ["64x64x64"]})
        self.assertEqual(compute_score("warpsmith", "abcd", "64x64x64")["score"], 4.0)
        self.assertEqual(str(inspect.signature(compute_score)),
                         "(data_source, solution_str, ground_truth, extra_info=None, **kwargs)")

    def test_trl_calls_with_prompts_completions_and_columns(self):
        reward_func = load("trl_reward").reward_func
        rewards = reward_func(prompts=["p", "p"], completions=["ab", "abc"], completion_ids=[[1], [2]],
                              problem=["64x64x64", "32x32x32 tn"], trainer_state=object())
        self.assertEqual(rewards, [2.0, 3.0])
        self.assertEqual(Server.requests[0][2]["labels"], ["64x64x64", "32x32x32 tn"])
        talk = [[{"role": "assistant", "content": "hello"}]]
        self.assertEqual(reward_func(prompts=[[{"role": "user", "content": "p"}]], completions=talk), [5.0])
        self.assertIsNone(Server.requests[1][2]["labels"])
        self.assertEqual(str(inspect.signature(reward_func)), "(prompts, completions, **columns)")

    def test_a_busy_server_is_asked_again(self):
        for name in ("verl_reward", "trl_reward"):
            Server.script[:] = [(503, {"Retry-After": "0"}), (429, {"Retry-After": "0.01"})]
            Server.requests.clear()
            self.assertEqual(load(name).ask(["abc"], None)["rewards"], [3.0])
            self.assertEqual(len(Server.requests), 3)

    def test_what_passes_is_asked_again(self):
        passing = [(502, {}), (504, {}), (503, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), (503, {"Retry-After": "-1"}),
                   (200, {}, b'{"rewa'), (200, {"Transfer-Encoding": "chunked"}, b"5\r\n{\"r"), (200, {}, b""),
                   (200, {"Content-Length": "4"}, b"<ht>")]
        for name in ("verl_reward", "trl_reward"):
            module = load(name)
            waits = []
            module.time = types.SimpleNamespace(monotonic=lambda: 0.0, sleep=waits.append)
            Server.script[:] = passing
            self.assertEqual(module.ask(["abc"], None)["rewards"], [3.0])
            self.assertEqual(waits, [1.0] * len(passing), name)

    def test_a_url_that_is_none_is_no_reason_to_wait(self):
        for name in ("verl_reward", "trl_reward"):
            os.environ["WARPSMITH_SERVE_URL"] = "measuring-host"
            with self.assertRaisesRegex(ValueError, "unknown url type"):
                module = load(name)
                module.time = types.SimpleNamespace(monotonic=lambda: 0.0, sleep=self.fail)
                module.ask(["abc"], None)

    def test_a_message_without_text_is_an_empty_one(self):
        reward_func = load("trl_reward").reward_func
        talk = [[{"role": "assistant", "content": None}, {"role": "assistant"}, {"role": "assistant", "content": "ab"}]]
        self.assertEqual(reward_func(prompts=["p"], completions=talk), [2.0])

    def test_a_refusal_is_an_error_with_its_reason(self):
        for name in ("verl_reward", "trl_reward"):
            Server.script[:] = [(422, {})]
            with self.assertRaisesRegex(RuntimeError, "422 .*not now"):
                load(name).ask(["abc"], None)
            Server.script[:] = [(503, {"Retry-After": "100"})]
            with self.assertRaisesRegex(RuntimeError, "503"):
                load(name).ask(["abc"], None)

    def test_no_server_is_an_error(self):
        os.environ["WARPSMITH_SERVE_URL"] = "http://127.0.0.1:9"
        os.environ["WARPSMITH_SERVE_TIMEOUT"] = "0.5"
        for name in ("verl_reward", "trl_reward"):
            with self.assertRaisesRegex(RuntimeError, "127.0.0.1:9"):
                load(name).ask(["abc"], None)

    def test_the_token_is_sent(self):
        os.environ["WARPSMITH_SERVE_TOKEN"] = "secret-of-the-test\n"
        for name in ("verl_reward", "trl_reward"):
            load(name).ask(["abc"], None)
            self.assertEqual(Server.requests[-1][1]["Authorization"], "Bearer secret-of-the-test")

    def test_they_are_short_and_need_nothing(self):
        for name in ("verl_reward", "trl_reward"):
            text = (REWARDS / f"{name}.py").read_text()
            self.assertLess(len(text.splitlines()), 60, name)
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    modules = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
                    for module in modules:
                        self.assertIn(module.split(".")[0], sys.stdlib_module_names)


if __name__ == "__main__":
    unittest.main()

"""Reward function for TRL: measured speed of the kernels in completions, from a running `warpsmith serve`.

  trainer = GRPOTrainer(model=..., reward_funcs=reward_func, train_dataset=...)

The dataset's column "problem" names a row's problem, such as "64x64x64 nn f16 f32". WARPSMITH_SERVE_URL,
WARPSMITH_SERVE_TOKEN and WARPSMITH_SERVE_TIMEOUT (seconds, 1800) say where the server is. Needs the standard library
alone.
"""

import contextlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the server is reached directly


def ask(queries, labels):
    """The server's answer to completions and their problems; asks again while it is busy. Raises RuntimeError."""
    url = os.environ.get("WARPSMITH_SERVE_URL", "http://127.0.0.1:5000").rstrip("/") + "/get_reward"
    headers = {"Content-Type": "application/json"}
    if os.environ.get("WARPSMITH_SERVE_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["WARPSMITH_SERVE_TOKEN"].strip()
    body = json.dumps({"query": queries, "labels": labels}).encode()
    request = urllib.request.Request(url, body, headers)
    end = time.monotonic() + float(os.environ.get("WARPSMITH_SERVE_TIMEOUT", "1800"))
    while True:
        pause = 1.0
        try:
            with OPENER.open(request, timeout=300) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            reason = f"{error.code} {error.reason}"
            if error.code not in (429, 502, 503, 504):
                raise RuntimeError(f"{url}: {reason} {error.read().decode(errors='replace').strip()}") from None
            with contextlib.suppress(ValueError):  # a date
                wanted = float(error.headers.get("Retry-After", "1"))
                pause = wanted if wanted >= 0 else pause
        except (OSError, http.client.HTTPException, ValueError) as error:  # no answer, or a part of one
            reason = f"{type(error).__name__}: {error}"
        if time.monotonic() + pause > end:
            raise RuntimeError(f"{url}: {reason}")
        time.sleep(pause)


def text_of(completion):
    """A completion is a text, or messages of a conversation."""
    return completion if isinstance(completion, str) else "".join(message.get("content") or "" for message in completion)


def reward_func(prompts, completions, **columns):
    """One reward a completion. Without a column "problem" (or "label") the server's own problem is meant."""
    labels = columns.get("problem") or columns.get("label")
    return ask([text_of(completion) for completion in completions], labels)["rewards"]

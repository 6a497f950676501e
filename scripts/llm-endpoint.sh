#!/usr/bin/env bash
# Policy llm against a real OpenAI-compatible server: `transformers serve` with a tiny random model, on the CPU. Its
# answers are useless; what counts is that they arrive, streamed and whole, that the loop says so and goes on.
#   scripts/llm-endpoint.sh PYTHON      PYTHON: of an environment with "transformers[serving]" and torch
# Result: ${OUT:-results}/llm-endpoint.json. Needs build/test/bin/warpsmith, or WARPSMITH_CLI. Exit codes: 0 all well, 1 not,
# 2 bad input, 3 something is missing.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
python=${1:-}
cli=${WARPSMITH_CLI:-$root/build/test/bin/warpsmith}
out=${OUT:-$root/results}
[[ -n $python ]] || { echo 'llm-endpoint: usage: scripts/llm-endpoint.sh PYTHON' >&2 && exit 2; }
[[ -x $cli ]] || { echo "llm-endpoint: there is no $cli; build it or set WARPSMITH_CLI" >&2 && exit 3; }
"$python" -c 'import torch, transformers, fastapi, uvicorn' || exit 3

scratch=$(mktemp -d)
server=
stop() {
  if [[ -n $server ]]; then kill "$server" 2>/dev/null || true; fi
  rm -rf -- "$scratch"
}
trap stop EXIT
export WARPSMITH_DATA=$scratch/data HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
"$python" "$root/tests/llm/tiny_model.py" "$scratch/model" >/dev/null 2>&1
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$(dirname -- "$python")/transformers" serve "$scratch/model" --device cpu --port "$port" >"$scratch/server.log" 2>&1 &
server=$!
ready() { "$python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$port/health', timeout=2)" 2>/dev/null; }
for _ in {1..120}; do
  if ready; then break; fi
  kill -0 "$server" 2>/dev/null || { tail -n 5 "$scratch/server.log" >&2 && exit 1; }
  sleep 0.5
done

search() {
  "$cli" optimize 48 40 56 --target cpu --threads 1 --policy llm --llm-url "http://127.0.0.1:$port/v1" --llm-model "$scratch/model" \
    --llm-first 1 --llm-requests 4 --llm-max-tokens 64 --llm-parallel 1 --budget 120s --quiet --json "$@"
}
search >"$scratch/streamed.json"
search --llm-no-stream >"$scratch/whole.json"
"$python" - "$scratch" "$out/llm-endpoint.json" <<'PY'
import importlib.metadata, json, pathlib, sys
scratch, out = map(pathlib.Path, sys.argv[1:])
row = {"server": "transformers serve " + importlib.metadata.version("transformers"), "torch": importlib.metadata.version("torch")}
good = True
for name in ("streamed", "whole"):
    result = json.loads((scratch / f"{name}.json").read_text())[0]
    row.update(problem=result["problem"], provenance=result["provenance"])
    row[name] = result["models"] | {"best_us": result.get("time_us")}
    good = good and row[name]["answers"] == row[name]["malformed"] == 4 and result.get("time_us")
out.parent.mkdir(parents=True, exist_ok=True)
out.write_text(json.dumps(row, indent=1) + "\n")
print(out, "all answers arrived" if good else "NOT as expected", json.dumps(row))
sys.exit(0 if good else 1)
PY

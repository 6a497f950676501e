#!/usr/bin/env bash
# On a GPU host: policy llm end to end with an endpoint that follows a script, whose answers are kernels written by hand
# for small shapes, wrong ones, a broken one, one that keeps its result, and prose; with what scripts/stage.sh made and
# this checkout (tests/llm has the endpoint and the answers).
#   scripts/gpu/llm.sh      four searches, spread over the GPUs; each takes 280 s at most
# Results: ${OUT:-results/h200}/{llm.json,llm.txt,llm-SHAPE.json}. Exit codes: 0 the loop worked and a kernel of the
# answers is faster than auto-tuned cuBLASLt on some shape, 1 not, 3 nothing staged or no python3.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
readonly answers=$root/tests/llm/answers server=$root/tests/llm/scripted_server.py
command -v python3 >/dev/null || { echo "llm: there is no python3" >&2 && exit 3; }
[[ -f $server ]] || { echo "llm: $server is missing: copy the checkout, not stage/ alone" >&2 && exit 3; }

# What the endpoint says, in this order: each answer that is refused is followed by the one that repairs it.
cp "$answers"/*.md "$scratch/"
cat >"$scratch/script.json" <<'JSON'
[{"answer": "A larger tile might help."}, {"answer_file": "small_split_k.md"},
 {"answer_file": "wrong_partial_k.md"}, {"answer_file": "small_wide_loads.md"},
 {"status": 429, "headers": {"Retry-After": "1"}, "body": "later"},
 {"answer_file": "does_not_compile.md"}, {"answer_file": "small_one_warp.md"},
 {"answer_file": "small_split_k.md", "cut": 900},
 {"answer_file": "hack_keeps_result.md"}, {"answer_file": "small_split_k.md"}]
JSON

# search NAME OPTIONS...: one search with an endpoint of its own, its result in $out/llm-NAME.json.
search() {
  local name=$1 port='' pid
  shift
  python3 "$server" "$scratch/script.json" --log "$scratch/$name.requests" >"$scratch/$name.port" &
  pid=$!
  for _ in {1..100}; do
    [[ -s $scratch/$name.port ]] && break
    sleep 0.1
  done
  port=$(<"$scratch/$name.port")
  step "llm-$name.json" 280 "$stage/warpsmith" optimize "$@" --target sm90 --policy llm \
    --llm-url "http://127.0.0.1:${port:-1}/v1" --llm-model scripted --llm-parallel 1 --llm-requests 11 --budget 120s \
    --archive "$scratch/$name.sqlite" --kernels "$scratch/$name" --json --quiet
  kill "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  return "$status"
}

# The searches that one GPU of how many makes, one after another.
searches() {
  local index=$1 devices=$2 number=0 line
  while read -r line; do
    if ((number++ % devices == index)); then
      # shellcheck disable=SC2086  # one word an option
      search $line || status=1
    fi
  done <<'SEARCHES'
64-tn 64 64 64 --layout tn --llm-first 0
64-nn 64 64 64 --layout nn --llm-first 0
128x64x256-tn 128 64 256 --layout tn --llm-first 0
64-tn-first 64 64 64 --layout tn --llm-first 4 --llm-profile
SEARCHES
  return "$status"
}

run() {
  local devices=() pids=() i
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  mapfile -t devices < <(gpus)
  if ((${#devices[@]} == 0)); then
    echo 'llm: no GPU is visible'
    return 1
  fi
  for i in "${!devices[@]}"; do
    CUDA_VISIBLE_DEVICES=${devices[i]} searches "$i" "${#devices[@]}" </dev/null &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  python3 - "$out" "$scratch/64-tn-first.requests" <<'PY'
import json, pathlib, sys
out, profiled = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
rows, faults, provenance = [], [], None
for name in ("64-tn", "64-nn", "128x64x256-tn", "64-tn-first"):
    try:
        result = json.loads((out / f"llm-{name}.json").read_text())[0]
    except (OSError, ValueError, IndexError) as error:
        faults.append(f"{name}: no result ({error})")
        continue
    models, verdicts, provenance = result["models"], result["verdicts"], provenance or result.get("provenance")
    subjects = {s["subject"]: s["cold"]["median_us"] for s in result.get("conclusion", {}).get("subjects", [])}
    layout = result["layout"]
    auto = min((us for s, us in subjects.items() if s.startswith("cublaslt-auto") and s.endswith(layout)), default=None)
    row = {"run": name, "problem": result["problem"], "winner": result.get("recipe"), "time_us": result.get("time_us"),
           "cublaslt_auto_us": auto, "speedup_over_auto": auto / result["time_us"] if auto and "time_us" in result else None,
           "speedup": result.get("speedup"), "verdicts": verdicts, "wrong_by_gate": result["wrong_by_gate"], "models": models}
    rows.append(row)
    print(f"{row['run']:<16} {row['time_us']} us, cublaslt-auto {row['cublaslt_auto_us']} us, "
          f"speed-up {row['speedup_over_auto']}; {row['verdicts']}; {models['answers']} answers, "
          f"{models['malformed']} without a candidate, {models['repaired']} of {models['repairs']} repaired; {row['winner']}")
    for kind in ("accepted", "wrong", "compile-error"):
        if not verdicts.get(kind):
            faults.append(f"{name}: no verdict '{kind}'")
    if models["failures"]:
        print(f"  failures: {models['failures']} {models['last_failure']}")
prompts = profiled.read_text().splitlines() if profiled.exists() else []
with_profile = sum("Profile: " in prompt for prompt in prompts)
print(f"prompts with a profile: {with_profile} of {len(prompts)}")
if not with_profile:
    faults.append("64-tn-first: no prompt shows a profile")
beaten = [r["run"] for r in rows if (r["speedup_over_auto"] or 0) > 1 and (r["winner"] or "").startswith("free ")]
if not beaten:
    faults.append("no kernel of the answers beats auto-tuned cuBLASLt")
(out / "llm.json").write_text(json.dumps(
    {"provenance": provenance, "runs": rows, "prompts_with_profile": [with_profile, len(prompts)],
     "beats_cublaslt_auto": beaten, "faults": faults}, indent=1) + "\n")
print("beats auto-tuned cuBLASLt:", ", ".join(beaten) or "nowhere")
for fault in faults:
    print("FAULT", fault)
sys.exit(1 if faults else 0)
PY
  local code=$?
  return $((status || code))
}

run 2>&1 | tee "$out/llm.txt"
exit "${PIPESTATUS[0]}"

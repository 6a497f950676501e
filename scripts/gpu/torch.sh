#!/usr/bin/env bash
# On a GPU host with PyTorch and g++: builds the PyTorch operator against the staged libwarpsmith and tests it, then runs
# python/examples/decoder_block.py plain and with the interposer preloaded, in turn.
#   scripts/gpu/torch.sh [STEP...]     STEP: build, test, tune, decoder; default all but tune
# tune: searches the decoder block's products for TUNE_SECONDS (60) and compares the best with cuBLASLt for as long;
# decoder then uses that wisdom, decoder-wisdom.jsonl, unless WARPSMITH_WISDOM names another.
# decoder: ROUNDS (3) of both, or as many as DECODER_SECONDS (150) allow; TYPE: f16. Prefill and decode run side by side
# where two GPUs are visible. What is left then is done by the next call with the same OUT.
# Kernels and choices come from WARPSMITH_WISDOM and WARPSMITH_PACK where they are set, else from wisdom/h200.jsonl and
# NVRTC. Results: ${OUT:-results/h200}/{torch.txt,torch-build.txt,torch-test.txt,interposer.json,interposer-*.jsonl}.
# Exit codes: 0 all well, 1 not, 2 bad input, 3 nothing staged.
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
steps=${*:-build test decoder}
named_wisdom=${WARPSMITH_WISDOM:-}
readonly rounds=${ROUNDS:-3} type=${TYPE:-f16} decoder_seconds=${DECODER_SECONDS:-150}
readonly python=${WARPSMITH_PYTHON:-python3} site=${SITE:-$root/build/torch-site}
readonly block=$root/python/examples/decoder_block.py interposer=$stage/libwarpsmith_cublas.so
if [[ -z ${WARPSMITH_WISDOM:-} && -f $root/wisdom/h200.jsonl ]]; then export WARPSMITH_WISDOM=$root/wisdom/h200.jsonl; fi
# Kernels that one process compiled are the next one's: the cache outlives the steps.
export WARPSMITH_CACHE=${KERNEL_CACHE:-$root/build/torch-kernels}

tuned=$out/decoder-wisdom.jsonl
library=$(find "$stage" -maxdepth 1 -name 'libwarpsmith.so*' | sort | tail -n 1)

build() {
  step torch-build.txt 300 env WARPSMITH_LIBRARY="$library" WARPSMITH_INCLUDE="$root/include" \
    "$python" "$root/python/setup.py" build_ext --build-lib "$site" --build-temp "$scratch/torch-build"
  cp "$root"/python/warpsmith/*.py "$site/warpsmith/"
  # Which C++ runtime it was linked with is worth a line.
  "${CXX:-g++}" --version | head -n 1
  if command -v readelf >/dev/null; then
    readelf -d "$site"/warpsmith/_torch*.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/  needs \1/p'
  fi
}

# One device is enough for all cases but one; any other case that is skipped has not been tested.
test_operator() {
  # What was packed with the operator is what it finds.
  step torch-test.txt 300 env -u WARPSMITH_WISDOM -u WARPSMITH_PACK PYTHONPATH="$site" PYTHONFAULTHANDLER=1 bash -c "exec '$python' '$root/python/tests/test_matmul.py' -v 2>&1"
  grep -E '^(Ran|OK|FAILED)|(FAIL|ERROR|skipped)|^Fatal' "$out/torch-test.txt" | head -n 20
  if grep '\.\.\. skipped' "$out/torch-test.txt" | grep -qv 'fewer than two CUDA devices'; then status=1; fi
}

tune() {
  local seconds=${TUNE_SECONDS:-60}
  [[ -z ${WARPSMITH_WISDOM:-} || -f $tuned ]] || cp "$WARPSMITH_WISDOM" "$tuned"
  "$python" "$block" shapes >"$scratch/decoder-shapes.txt"
  step tune-decoder.txt $((2 * seconds + 60)) "$stage/warpsmith" tune --target sm90 --gpus all --layout tn --type "$type" \
    --shapes "$scratch/decoder-shapes.txt" --budget "${seconds}s" --final-budget "${seconds}s" --quiet \
    --archive "$scratch/decoder.sqlite" --wisdom "$tuned"
  tail -n 5 "$out/tune-decoder.txt"
}

# The figures of some of the points on one GPU: decoder_on GPU NAME OPTION... Runs go to $runs, and stay for the next call.
decoder_on() {
  local name=$2 round begun pair=0 what
  export CUDA_VISIBLE_DEVICES=$1
  shift 2
  if [[ ! -f $runs/preloaded-$name-0.json ]]; then
    rm -f -- "$kept/interposer-$name.jsonl"
    # shellcheck disable=SC2016
    step "prepare-$name" 240 bash -c '"$@" | "$0" "$root/python/prepare_plans.py" "$library" --type "$type"' \
      "$python" "$python" "$block" shapes "$@"
    cat "$out/prepare-$name"
  fi
  step "errors-$name" 120 env LD_PRELOAD="$interposer" WARPSMITH_INTERPOSE_LOG="$kept/interposer-$name.jsonl" \
    "$python" "$block" run "$runs/preloaded-$name-0.json" --what errors --type "$type" "$@"
  [[ ! -f $kept/interposer-$name.jsonl ]] || tail -n 1 "$kept/interposer-$name.jsonl"
  for ((round = 1; round <= rounds; ++round)); do
    if ((round > 1 && SECONDS - started + pair > decoder_seconds)); then
      printf '%s: no time for round %d\n' "$name" "$round"
      break
    fi
    begun=$SECONDS
    what="times"
    ((round > 1)) || what="both"
    step "plain-$name-$round" 120 "$python" "$block" run "$runs/plain-$name-$round.json" --what "$what" --type "$type" "$@"
    step "preloaded-$name-$round" 120 env LD_PRELOAD="$interposer" \
      "$python" "$block" run "$runs/preloaded-$name-$round.json" --what times --type "$type" "$@"
    pair=$((SECONDS - begun))
  done
  exit "$status"
}

decoder() {
  local devices=() parts=() part kept=$out runs=$out/decoder-runs started=$SECONDS
  local out=$scratch/runs  # what step() writes: only the summary is kept
  mapfile -t devices < <(gpus)
  if ((${#devices[@]} == 0)); then
    echo 'decoder: not run: no GPU is visible'
    status=1
    return
  fi
  mkdir -p "$out" "$runs"
  export root library type
  if [[ -z $named_wisdom && -f $tuned ]]; then export WARPSMITH_WISDOM=$tuned; fi
  if ((${#devices[@]} > 1)); then
    (decoder_on "${devices[0]}" prefill --decode '') &
    parts+=($!)
    (decoder_on "${devices[1]}" decode --prefill '') &
    parts+=($!)
  else
    (decoder_on "${devices[0]}" all) &
    parts+=($!)
  fi
  for part in "${parts[@]}"; do wait "$part" || status=1; done
  local plain=("$runs"/plain-*.json) preloaded=("$runs"/preloaded-*.json)
  out=$kept
  if [[ ! -f ${plain[0]} || ! -f ${preloaded[0]} ]]; then
    echo 'decoder: nothing was measured'
    status=1
    return
  fi
  local IFS=,
  step interposer.json 60 "$python" "$block" compare "${plain[*]}" "${preloaded[*]}"
  "$python" - "$out/interposer.json" "$runs" <<'END'
import json, shutil, sys
result = json.load(open(sys.argv[1]))
for row in result["interposer"]:
    print("{phase:8} {tokens:5}  end to end {end_to_end:.3f}  eager {end_to_end_eager:.3f}  products {gemm_only:.3f}  "
          "{0}".format("right" if row["within_bound"] else "WRONG", **row))
slower = [row for row in result["interposer"] if min(row["end_to_end"], row["gemm_only"]) < 0.99]
print(f"{len(result['interposer'])} points, {len(slower)} of them slower than plain; not measured: "
      f"{', '.join(result['missing']) or 'none'}")
if not result["missing"]:
    shutil.rmtree(sys.argv[2])  # else the next call goes on from there
END
  if [[ -f $root/bench/library_evidence.py ]]; then "$python" "$root/bench/library_evidence.py" "$out" >/dev/null; fi
}

for name in $steps; do
  case $name in
    build | test | tune | decoder) ;;
    *)
      echo "torch: unknown step '$name'; accepted: build, test, tune, decoder" >&2
      exit 2
      ;;
  esac
done
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  for name in $steps; do
    if [[ $name == test ]]; then test_operator; else $name; fi
  done
  exit "$status"
} 2>&1 | tee "$out/torch.txt"
exit "${PIPESTATUS[0]}"

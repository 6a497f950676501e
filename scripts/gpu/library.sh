#!/usr/bin/env bash
# On a GPU host: shows what the library is worth, with what scripts/stage.sh made. Uses the wisdom file wisdom/GPU.jsonl
# where the checkout has one (or WARPSMITH_WISDOM), and packs its kernels first.
#   scripts/gpu/library.sh [STEP...]     STEP: pack, cost, calls, devices, grid; default all but grid
# cost before everything else that loads the machine. grid runs over all 1,000 shapes, spread over the GPUs that there
# are (half an hour on one); GRID_STEP=97 takes a sample. Results: ${OUT:-results/h200}/library.json and a text a step.
# Exit codes: 0 all well, 1 not, 3 nothing staged.
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
steps=${*:-pack cost calls devices}
export PATH=$PATH:/usr/local/cuda/bin
export WARPSMITH_LIBRARY_EVIDENCE=$out/library.json
if [[ -z ${WARPSMITH_WISDOM:-} ]]; then
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr '[:upper:]' '[:lower:]' | sed 's/^nvidia //; s/[^a-z0-9]\+/-/g')
  [[ -r $root/wisdom/$gpu.jsonl ]] && export WARPSMITH_WISDOM=$root/wisdom/$gpu.jsonl
fi
# A pack of an earlier call with this wisdom is good enough; kernels that it lacks are compiled.
[[ -r $out/library.wspack ]] && export WARPSMITH_PACK=$out/library.wspack

pack() {
  if [[ -z ${WARPSMITH_WISDOM:-} ]]; then
    echo 'pack: not run: no wisdom for this GPU'
    return
  fi
  step pack.txt 580 "$stage/warpsmith" pack --wisdom "$WARPSMITH_WISDOM" --output "$out/library.wspack" --quiet
  cat "$out/pack.txt"
  [[ -r $out/library.wspack ]] && export WARPSMITH_PACK=$out/library.wspack
}

verdict() { grep -E '^\[  (PASSED|FAILED|SKIPPED)|^[a-z_]+: ' "$out/$1" | cut -c1-300 | sort -u; }

cost() {
  step library_cost.txt 300 "$stage/tests/library_cost_gpu_test"
  verdict library_cost.txt
}

calls() {
  WARPSMITH_ANY_SHAPE_CALLS=${ANY_SHAPE_CALLS:-2000} WARPSMITH_THREAD_SECONDS=${THREAD_SECONDS:-60} \
    step library_calls.txt 1500 "$stage/tests/library_gpu_test"
  verdict library_calls.txt
}

devices() {
  step library_devices.txt 120 "$stage/tests/library_devices_gpu_test"
  verdict library_devices.txt
}

grid() {
  local gpus i
  gpus=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)
  for ((i = 0; i < gpus; ++i)); do
    WARPSMITH_GRID_STEP=${GRID_STEP:-1} WARPSMITH_GRID_SHARD=$i WARPSMITH_GRID_SHARDS=$gpus \
      WARPSMITH_LIBRARY_EVIDENCE=$out/library_grid_$i.json \
      step "library_grid_$i.txt" 3600 "$stage/tests/library_grid_gpu_test" &
  done
  wait
  for ((i = 0; i < gpus; ++i)); do
    verdict "library_grid_$i.txt"
    grep -q '^\[  PASSED  \] 1 test' "$out/library_grid_$i.txt" || status=1
  done
}

# shellcheck disable=SC2086  # one word a step
run_steps library.txt "pack cost calls devices grid" $steps

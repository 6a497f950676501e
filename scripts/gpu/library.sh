#!/usr/bin/env bash
# On a GPU host: shows what the library is worth, with what scripts/stage.sh made. Uses the wisdom file wisdom/GPU.jsonl
# where the checkout has one (or WARPSMITH_WISDOM), and packs its kernels first.
#   scripts/gpu/library.sh [STEP...]     STEP: pack, cost, calls, devices, grid; default all but grid
# cost before everything else that loads the machine. devices: several GPUs in one process; says so where there is one.
# grid: all 1,000 shapes against auto-tuned cuBLASLt, spread over the GPUs that are visible, for at most GRID_SECONDS
# (270); what is left then is done by the next call with the same OUT. GRID_STEP=97 takes a sample, GRID_LIMIT (0.99) is
# the smallest ratio that passes. Results: ${OUT:-results/h200}/{library.json,library_grid_*.jsonl} and a text a step.
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
# shellcheck source=scripts/gpu/wisdom.sh
source "$here/wisdom.sh"
# A pack of an earlier call with this wisdom is good enough; kernels that it lacks are compiled. It stays here: some
# tens of megabytes are no result.
pack_file=$root/build/library.wspack
mkdir -p "$root/build"
[[ -r $pack_file ]] && export WARPSMITH_PACK=$pack_file

pack() {
  if [[ -z ${WARPSMITH_WISDOM:-} ]]; then
    echo 'pack: not run: no wisdom for this GPU'
    return
  fi
  step pack.txt 300 "$stage/warpsmith" pack --wisdom "$WARPSMITH_WISDOM" --output "$pack_file" --quiet
  cat "$out/pack.txt"
  [[ -r $pack_file ]] && export WARPSMITH_PACK=$pack_file
}

verdict() { grep -E '^\[  (PASSED|FAILED|SKIPPED)|^[a-z_]+: ' "$out/$1" | cut -c1-300 | sort -u; }

cost() {
  step library_cost.txt 300 "$stage/tests/library_cost_gpu_test"
  verdict library_cost.txt
}

calls() {
  WARPSMITH_ANY_SHAPE_CALLS=${ANY_SHAPE_CALLS:-2000} WARPSMITH_THREAD_SECONDS=${THREAD_SECONDS:-60} \
    step library_calls.txt 420 "$stage/tests/library_gpu_test"
  verdict library_calls.txt
}

devices() {
  step library_devices.txt 240 "$stage/tests/library_devices_gpu_test"
  if grep -q '^\[  SKIPPED' "$out/library_devices.txt"; then
    printf 'devices: not run: %s\n' "$(grep -m 1 -o 'fewer than two CUDA devices' "$out/library_devices.txt")"
    return
  fi
  verdict library_devices.txt
  step interposer_devices.txt 120 "$stage/tests/interposer_gpu_test" --gtest_filter='*EveryDeviceRunsItsOwn'
  verdict interposer_devices.txt
}

# Kernels that no pack holds would be compiled one by one.
grid() {
  local seconds=${GRID_SECONDS:-270} shards=() i pids=()
  mapfile -t shards < <(gpus)
  if ((${#shards[@]} == 0)); then
    echo 'grid: not run: no GPU is visible'
    status=1
    return
  fi
  if [[ -z ${WARPSMITH_PACK:-} && -n ${WARPSMITH_WISDOM:-} ]]; then
    step grid_pack.txt 240 "$stage/warpsmith" pack --wisdom "$WARPSMITH_WISDOM" --no-scaled --output "$scratch/grid.wspack" --quiet
    if [[ -r $scratch/grid.wspack ]]; then export WARPSMITH_PACK=$scratch/grid.wspack; fi
  fi
  for i in "${!shards[@]}"; do
    (
      status=0
      export CUDA_VISIBLE_DEVICES=${shards[i]}
      WARPSMITH_GRID_STEP=${GRID_STEP:-1} WARPSMITH_GRID_SHARD=$i WARPSMITH_GRID_SHARDS=${#shards[@]} \
        WARPSMITH_GRID_SECONDS=$seconds WARPSMITH_GRID_LIMIT=${GRID_LIMIT:-0.99} \
        WARPSMITH_GRID_ROWS=$out/library_grid_$i.jsonl \
        step "library_grid_$i.txt" $((seconds + 60)) "$stage/tests/library_grid_gpu_test"
      verdict "library_grid_$i.txt"
      exit "$status"
    ) &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  if [[ -f $root/bench/library_evidence.py ]]; then python3 "$root/bench/library_evidence.py" "$out"; fi
}

# shellcheck disable=SC2086  # one word a step
run_steps library.txt "pack cost calls devices grid" $steps

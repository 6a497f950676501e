#!/usr/bin/env bash
# On a GPU host: shows what the evaluator is worth, with what scripts/stage.sh made: attacks caught and honest kernels
# not accused, one ratio in ten processes, cuBLASLt against itself, verdicts a second, faults.
#   scripts/gpu/evaluator.sh [STEP...]     STEP: attacks, spread, self, throughput, faults; default all
# spread measures the kernels of WARPSMITH_WISDOM, or of wisdom/h200.jsonl where that is there.
# Results: ${OUT:-results/h200}/{attacks.jsonl,spread.jsonl,self.jsonl,throughput.jsonl,faults.txt,evaluator.txt}, which
# bench/evaluator_evidence.py turns into results/h200/evaluator.json. Exit codes: 0 all well, 1 not, 3 nothing staged.
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
steps=${*:-attacks spread self throughput faults}
readonly shapes=$root/bench/shapes
export PATH=$PATH:/usr/local/cuda/bin

attacks() {
  local program test
  for program in "$stage"/warpsmith-*; do ln -sf "../${program##*/}" "$stage/tests/${program##*/}"; done
  rm -f "$out/attacks.jsonl"
  export WARPSMITH_ATTACKS_OUT=$out/attacks.jsonl
  for test in device_attacks_test host_attacks_test; do
    step "$test.txt" 240 "$stage/tests/$test"
    grep -E '^\[  (PASSED|FAILED)' "$out/$test.txt" | sort -u
  done
}

spread() {
  local wisdom=${WARPSMITH_WISDOM:-$root/wisdom/h200.jsonl} known=()
  [[ ! -f $wisdom ]] || known=(--wisdom "$wisdom")
  step spread.jsonl 360 "$stage/warpsmith" bench --shapes "$shapes/spread.txt" --target sm90 --layout tn \
    --repeat-processes 10 --json "${known[@]}"
}

self() { step self.jsonl 300 "$stage/warpsmith" bench --shapes "$shapes/self.txt" --target sm90 --self --json; }

throughput() {
  local shape
  : >"$out/throughput.jsonl"
  for shape in 64x64x64 512x512x512 1024x512x1024; do
    step throughput.part 60 "$stage/warpsmith" bench "$shape" --target sm90 --layout tn --first 8 --throughput 5s --json
    cat "$out/throughput.part" >>"$out/throughput.jsonl"
  done
  rm -f "$out/throughput.part"
}

faults() { OUT=$out "$here/faults.sh" || status=1; }

# shellcheck disable=SC2086  # one word a step
run_steps evaluator.txt "attacks spread self throughput faults" $steps

#!/usr/bin/env bash
# On a GPU host: proves the sm80 family on the device, and measures what each named main loop gives on shapes from tiny
# to large, with what scripts/stage.sh made. Results: ${OUT:-results/h200}/{sm80-gates.txt,sm80-ptx.txt,sm80-loops.jsonl}
#   scripts/gpu/sm80.sh [STEP...]      STEP: gates, ptx, loops; default all
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
steps=${*:-gates ptx loops}
readonly loops='naive pingpong multistep staggered spread late_barrier refill early_copy full_ring two_barriers unrolled'

gates() { step sm80-gates.txt 300 "$stage/tests/sm80_gpu_test"; }
ptx() { step sm80-ptx.txt 300 "$stage/tests/ptx_jit_gpu_test"; }

# One tile a shape, every loop at it; the wisdom of a search is not asked.
loops() {
  local shape tile name
  : >"$out/sm80-loops.jsonl"
  while read -r shape tile; do
    for name in $loops; do
      step sm80-loop.json 60 "$stage/warpsmith" bench "$shape" --layout tn --target sm90 --effort 40ms --json \
        --recipe "sm80 $tile loop=$name"
      cat "$out/sm80-loop.json" >>"$out/sm80-loops.jsonl"
    done
  done <<'SHAPES'
64x64x64 tile=32x32x32 warps=1x2 stages=3
256x256x256 tile=32x32x64 warps=1x2 stages=4
512x512x1024 tile=64x64x64 warps=2x2 stages=4
2048x2048x2048 tile=128x128x32 warps=2x4 stages=4
4096x4096x4096 tile=128x128x32 warps=2x4 stages=4
SHAPES
  rm -f "$out/sm80-loop.json"
}

# shellcheck disable=SC2086  # one word a step
run_steps sm80-summary.txt "gates ptx loops" $steps

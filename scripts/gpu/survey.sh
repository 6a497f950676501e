#!/usr/bin/env bash
# On a GPU host: measures the best known kernels beside all baselines on all GPUs, with what scripts/stage.sh made, and
# packs what the next run needs. Calls add up: what one leaves in $OUT, given as --state, is where the next one goes on;
# without a state, the rows of results/h200/grid-rows.jsonl.xz (grid.rows of survey.tar.xz), the times of
# replay.jsonl.xz beside it and the GPU's file of wisdom/ are. FRESH=1: no rows; all shapes are measured again.
#   scripts/gpu/survey.sh [--limit SECONDS] [--state DIRECTORY] [STEP...]
# STEP, in the order given; each begins nothing once the time is up:
#   grid      the CUDA-L2 grid, modes offline and call          server    the same in mode server, in random order
#   accuracy  errors beside cuBLASLt's, bench/shapes/accuracy.txt
#   llm       bench/shapes/llm.txt, kernels chosen without having measured them
#   references  bench/shapes/held-out.txt and off-grid.txt, likewise: the baselines' times for `dataset replay --references`
# Default: grid accuracy llm. --limit: from start to end, packing included (default 570). The state is that of tune.sh
# with survey.tar.xz. Results: ${OUT:-results/h200}/{survey.tar.xz (CSV files, summary, rows),grid-summary.json,
# wisdom.jsonl,cache.tar.xz,survey.txt}. Exit codes: 0 all well, 1 not, 2 bad input, 3 nothing staged.
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
# shellcheck source=scripts/gpu/state.sh
source "$here/state.sh"
# shellcheck source=scripts/gpu/wisdom.sh
source "$here/wisdom.sh"
limit=570 state=$root/build/tune-state
read_options "limit state" "$@"
known_steps "grid server accuracy llm references" "${words[@]}"
steps=("${words[@]}")
((${#steps[@]})) || steps=(grid accuracy llm)
readonly packing_seconds=20 longest_shape_seconds=20
readonly work=$scratch/survey shapes=$root/bench/shapes
mkdir -p "$work"
PATH=$PATH:/usr/local/cuda/bin

# survey OUTPUT OPTION...: until the time is up; rows that are there stand.
survey() {
  local output=$1 code=0 left=$((limit - packing_seconds - SECONDS))
  shift
  if ((left < longest_shape_seconds)); then
    printf 'survey %s: no time left\n' "$output"
    return
  fi
  local known=()
  [[ ! -f $archive ]] || known+=(--archive "$archive")
  [[ ! -f $out/wisdom.jsonl ]] || known+=(--wisdom "$out/wisdom.jsonl")
  # Ctrl-C ends it should a shape take very long.
  timeout --signal=INT --kill-after=10 "$left" "$stage/warpsmith" survey --target sm90 --gpus all --resume \
    --limit "$((left - longest_shape_seconds))s" "${known[@]}" --baseline-choices "$work/baseline-choices.jsonl" \
    --output "$work/$output" "$@" || code=$?
  printf 'survey %s: exit code %d after %d s\n' "$output" "$code" "$SECONDS"
  # 1: not all is done or a shape failed; 130, 124: the time was up.
  ((code == 0 || code == 1 || code == 130 || code == 124)) || status=1
}

grid() { survey grid --grid cuda-l2 --modes offline,call --write-wisdom "$out/wisdom.jsonl"; }
server() { survey grid --grid cuda-l2 --modes server --shuffle; }
accuracy() { survey grid --shapes "$shapes/accuracy.txt" --modes accuracy; }
references() {
  cat "$shapes/held-out.txt" "$shapes/off-grid.txt" >"$scratch/references.txt"
  survey references --shapes "$scratch/references.txt" --unmeasured
}
llm() {
  survey llm --shapes "$shapes/llm.txt" --unmeasured
  [[ ! -f $work/llm-offline.csv ]] || mv "$work/llm-offline.csv" "$work/llm-shapes.csv"
}

{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  unpack_state "$state" || exit 3
  [[ -f $out/wisdom.jsonl || -z ${WARPSMITH_WISDOM:-} ]] || cp "$WARPSMITH_WISDOM" "$out/wisdom.jsonl" || exit 3
  # Kernels that are chosen without having been measured need no known times.
  if [[ " ${steps[*]} " =~ \ (grid|server|accuracy)\  ]]; then known_times || exit 3; fi
  if [[ -f $state/survey.tar.xz ]]; then
    tar -C "$work" -xJf "$state/survey.tar.xz" || exit 3
  elif [[ ${FRESH:-0} != 1 && -f $root/results/h200/grid-rows.jsonl.xz ]]; then
    xz -dc "$root/results/h200/grid-rows.jsonl.xz" >"$work/grid.rows" || exit 3
  fi
  # Which of cuBLASLt's algorithms were the fastest on a GPU of this type: only they are tried then.
  if [[ ! -f $work/baseline-choices.jsonl && -f $root/results/h200/baseline-choices.jsonl.xz ]]; then
    xz -dc "$root/results/h200/baseline-choices.jsonl.xz" >"$work/baseline-choices.jsonl" || exit 3
  fi
  for name in "${steps[@]}"; do $name; done
  if compgen -G "$work/grid-*.csv" >/dev/null; then
    "$stage/warpsmith" survey --summarize --output "$work/grid" && cp "$work/grid-summary.json" "$out/"
  fi
  tar -C "$work" -cJf "$out/survey.tar.xz" .
  pack_cache
  printf 'all packed after %d s\n' "$SECONDS"
  exit "$status"
} 2>&1 | tee "$out/survey.txt"
exit "${PIPESTATUS[0]}"

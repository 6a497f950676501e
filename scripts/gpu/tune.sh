#!/usr/bin/env bash
# On a GPU host: tunes the grid on all GPUs for a given time and packs what the next run needs, with what
# scripts/stage.sh made. Calls add up: what one leaves in $OUT, given as --state, is where the next one goes on;
# without a state, the times of results/h200/replay.jsonl.xz are.
#   scripts/gpu/tune.sh [--limit SECONDS] [--final SECONDS] [--state DIRECTORY] [-- OPTION...]
# --limit: from start to end, packing included (default 570). --final: of that, for measuring finalists and comparing
# (default 0: none; survey.sh compares the winners of a whole grid faster). OPTION: of `warpsmith tune`, such as
# --shapes FILE in place of --grid cuda-l2. The cuBLASLt times of the state's survey.tar.xz, or else of
# results/h200/grid-offline.csv, tell where searching is worth most.
# Results: ${OUT:-results/h200}/{archive.sqlite.xz.*,wisdom.jsonl,cache.tar.xz,tune.csv,tune.txt}, eight files at most;
# `warpsmith dataset replay` makes the replay table of the archive, anywhere.
# Exit codes: 0 all well, 1 not, 2 bad input, 3 nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
# shellcheck source=scripts/gpu/state.sh
source "$here/state.sh"
limit=570 final=0 state=$root/build/tune-state
read_options "limit final state" "$@"
no_words
readonly packing_seconds=25 starting_seconds=20
[[ " ${options[*]} " == *" --shapes "* ]] || options+=(--grid cuda-l2)
PATH=$PATH:/usr/local/cuda/bin

tune() {
  local how=(--no-final) known=()
  ((final == 0)) || how=(--final-budget "${final}s" --csv "$out/tune.csv")
  if [[ -f $state/survey.tar.xz ]] && tar -C "$scratch" -xJf "$state/survey.tar.xz" ./grid-offline.csv; then
    known=(--baselines "$scratch/grid-offline.csv")
  elif [[ -f $root/results/h200/grid-offline.csv ]]; then
    known=(--baselines "$root/results/h200/grid-offline.csv")
  fi
  local budget=$((limit - final - packing_seconds - starting_seconds - SECONDS)) code=0
  if ((budget < 10)); then
    echo "tune: --limit $limit leaves $budget s to search; accepted: 10 and more" >&2
    exit 2
  fi
  # Ctrl-C makes it write what it has: searching may end late where starting took long.
  timeout --signal=INT --kill-after=$((packing_seconds / 2)) $((limit - packing_seconds - SECONDS)) \
    "$stage/warpsmith" tune --target sm90 --gpus all --budget "${budget}s" "${how[@]}" "${known[@]}" --resume \
    --archive "$archive" --wisdom "$out/wisdom.jsonl" \
    "${options[@]}" || code=$?
  printf 'tune: exit code %d after %d s\n' "$code" "$SECONDS"
  # 1: some problems have no kernel yet; 130: the time was up.
  ((code == 0 || code == 1 || code == 130 || code == 124)) || status=1
}

{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  { unpack_state "$state" && known_times; } || exit 3
  tune
  pack_archive
  pack_cache
  [[ ! -f $scratch/replay.jsonl ]] || xz -zc "$scratch/replay.jsonl" >"$out/replay.jsonl.xz"
  printf 'all packed after %d s\n' "$SECONDS"
  exit "$status"
} 2>&1 | tee "$out/tune.txt"
exit "${PIPESTATUS[0]}"

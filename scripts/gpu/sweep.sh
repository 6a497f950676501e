#!/usr/bin/env bash
# On a GPU host: measures declared spaces of recipes whole, on all GPUs, and packs what the next run needs, with what
# scripts/stage.sh made. Calls add up: what one leaves in $OUT, given as --state, is where the next one goes on.
#   scripts/gpu/sweep.sh --spaces FILE [--limit SECONDS] [--state DIRECTORY] [-- OPTION...]
# FILE: of `warpsmith dataset spaces`, or that packed by xz. --limit: from start to end, packing included (default 570).
# OPTION: of `warpsmith sweep`. The state is apart from tune.sh's: it has an archive of its own, and is large enough
# without the other. Results: ${OUT:-results/h200}/{archive.sqlite.xz.*,cache.tar.xz,sweep.txt}; `warpsmith dataset
# replay --archive TUNED --archive SWEPT --spaces FILE` makes the table, anywhere.
# Exit codes: 0 all is measured, 1 not, 2 bad input, 3 nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
# shellcheck source=scripts/gpu/state.sh
source "$here/state.sh"
limit=570 state=$root/build/sweep-state spaces=
read_options "spaces limit state" "$@"
no_words
if [[ ! -f $spaces ]]; then
  echo "sweep: --spaces '$spaces' is no file; accepted: what \`warpsmith dataset spaces\` writes" >&2
  exit 2
fi
# Packing takes longer than after tuning: ten times as much was measured.
readonly packing_seconds=45 starting_seconds=20
PATH=$PATH:/usr/local/cuda/bin

sweep() {
  local budget=$((limit - packing_seconds - starting_seconds - SECONDS)) code=0
  if ((budget < 10)); then
    echo "sweep: --limit $limit leaves $budget s to measure; accepted: 10 and more" >&2
    exit 2
  fi
  # Ctrl-C makes it write what it has.
  timeout --signal=INT --kill-after=$((packing_seconds / 2)) $((limit - packing_seconds - SECONDS)) \
    "$stage/warpsmith" sweep --target sm90 --gpus all --spaces "$scratch/spaces.jsonl" --budget "${budget}s" \
    --archive "$archive" "${options[@]}" || code=$?
  printf 'sweep: exit code %d after %d s\n' "$code" "$SECONDS"
  ((code == 0)) || status=1
}

{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  unpack_state "$state" || exit 3
  if [[ $spaces == *.xz ]]; then xz -dc "$spaces"; else cat "$spaces"; fi >"$scratch/spaces.jsonl" || exit 2
  sweep
  pack_archive
  pack_cache
  printf 'all packed after %d s\n' "$SECONDS"
  exit "$status"
} 2>&1 | tee "$out/sweep.txt"
exit "${PIPESTATUS[0]}"

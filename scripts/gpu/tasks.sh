#!/usr/bin/env bash
# On a GPU host with g++ and PyTorch: proves and times the CUDA candidates of every task beside PyTorch's baselines, with
# what scripts/stage.sh made.
#   scripts/gpu/tasks.sh [NAME...]     NAME: tasks; default all. Those with a result already are left as they are, so that
#                                      a run that was cut off goes on; FRESH=1 measures them again.
# SEARCH=SECONDS also searches each task's macros for so long first, and measures the winner with the candidates.
# LIMIT_SECONDS of one task: 180. Results: ${OUT:-results/h200}/tasks/NAME.json and tasks.txt; bench/tasks_evidence.py
# makes results/tasks.json of them. Exit codes: 0 every task has an accepted candidate, 1 not, 2 bad input, 3 nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
tasks=$root/tasks
[[ -d $tasks ]] || tasks=$stage/tasks
readonly limit=${LIMIT_SECONDS:-180} search=${SEARCH:-0}
if (($# == 0)); then
  for task in "$tasks"/*/; do set -- "$@" "$(basename -- "$task")"; done
fi
for name; do
  if [[ ! -f $tasks/$name/task.toml ]]; then
    echo "tasks: there is no task '$name' in $tasks" >&2
    exit 2
  fi
done
mkdir -p "$out/tasks"

measure() {
  local name=$1 candidates=() file
  if ((search > 0)); then
    step "tasks/$name.search" "$((search + limit))" "$stage/warpsmith" optimize --task "$tasks/$name" --budget "${search}s" \
      --kernels "$scratch/$name" --json --quiet
    for file in "$scratch/$name"/*.cu "$tasks/$name"/candidates/*.cu; do
      if [[ -f $file ]]; then candidates+=(--candidate "$file"); fi
    done
  fi
  step "tasks/$name.part" "$limit" "$stage/warpsmith" bench --task "$tasks/$name" "${candidates[@]}" --effort 500ms --torch --json
  if [[ -s $out/tasks/$name.part ]]; then mv -- "$out/tasks/$name.part" "$out/tasks/$name.json"; fi
  rm -f -- "$out/tasks/$name.part"
}

{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  for name; do
    if [[ -s $out/tasks/$name.json && ${FRESH:-0} == 0 ]]; then continue; fi
    measure "$name"
  done
  exit "$status"
} 2>&1 | tee "$out/tasks.txt"
exit "${PIPESTATUS[0]}"

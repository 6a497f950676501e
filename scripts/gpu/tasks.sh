#!/usr/bin/env bash
# On a GPU host with g++ and PyTorch: proves, times and sanitizes the CUDA candidates of every task beside PyTorch's
# baselines, with what scripts/stage.sh made. The sanitizer comes first, several tasks at once; one task at a time is timed
# on each GPU.
#   scripts/gpu/tasks.sh [NAME...]     NAME: tasks; default all
# LIMIT: seconds from start to end (570); a task that would pass it is cut off, or not begun. LIMIT_SECONDS: of one task (240).
# KNOWN: a tasks.jsonl of an earlier run: its tasks are kept and not measured again, but for those that were cut off, so
# that runs add up. SANITIZER=0 and TORCH=0 leave these out. JOBS: tasks that are sanitized at once (half the CPUs).
# SEARCH=SECONDS also searches each task's macros for so long first, and measures the winner with the candidates; the
# sanitizer then comes last, with each task. Results: ${OUT:-results/h200}/tasks.jsonl (a line a task) and tasks.txt; bench/tasks_evidence.py makes
# results/tasks.json of them. Exit codes: 0 every task has an accepted candidate, 1 not, 2 bad input, 3 nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
tasks=$root/tasks
[[ -d $tasks ]] || tasks=$stage/tasks
readonly run_limit=${LIMIT:-570} task_limit=${LIMIT_SECONDS:-240} search=${SEARCH:-0} known=${KNOWN:-}
readonly shortest=${SHORTEST:-100}  # seconds for which a task is still begun
readonly jobs=${JOBS:-$((($(nproc) + 1) / 2))}
if ! [[ $run_limit =~ ^[0-9]+$ && $task_limit =~ ^[0-9]+$ && $search =~ ^[0-9]+$ && $jobs =~ ^[1-9][0-9]*$ ]]; then
  echo "tasks: LIMIT=$run_limit LIMIT_SECONDS=$task_limit SEARCH=$search JOBS=$jobs; accepted: whole seconds, one job at least" >&2
  exit 2
fi
if [[ -n $known && ! -r $known ]]; then
  echo "tasks: KNOWN=$known cannot be read" >&2
  exit 2
fi
if (($# == 0)); then
  for task in "$tasks"/*/; do set -- "$@" "$(basename -- "$task")"; done
fi
for name; do
  if [[ ! -f $tasks/$name/task.toml ]]; then
    echo "tasks: there is no task '$name' in $tasks" >&2
    exit 2
  fi
done
options=(--effort 500ms --json)
[[ ${TORCH:-1} == 0 ]] || options+=(--torch)
sanitizer=()
[[ ${SANITIZER:-1} == 0 ]] || sanitizer=(--sanitizer)
if [[ -n $known ]]; then
  cat -- "$known" >"$scratch/known" && mv -- "$scratch/known" "$out/tasks.jsonl"  # it may be the same file
else
  : >"$out/tasks.jsonl"
fi

# left LIMIT: that, or what is left of the script's time; 1 at the least, since 0 means no limit to `timeout`.
left() {
  local rest=$((run_limit - SECONDS))
  rest=$((rest < $1 ? rest : $1))
  echo $((rest < 1 ? 1 : rest))
}

# is_known NAME: measured in an earlier run, and not cut off.
is_known() { grep -s "\"task\": *\"$1\"" "$out/tasks.jsonl" | grep -qv '"interrupted": *true'; }

# watch_all NAME...: the sanitizer's reports, of times that mean nothing, in $scratch/NAME.watched.
watch_all() {
  local name names=()
  for name; do is_known "$name" || names+=("$name"); done
  ((${#names[@]} && ${#sanitizer[@]} && search == 0)) || return 0
  # shellcheck disable=SC2016  # for the shell that xargs starts
  printf '%s\n' "${names[@]}" | xargs -P "$jobs" -I '{}' sh -c \
    'timeout --kill-after=10 "$4" "$0" bench --task "$1/$2" --effort 1ms --json --sanitizer >"$3/$2.watched" 2>"$3/$2.watched.log"' \
    "$stage/warpsmith" "$tasks" '{}' "$scratch" "$(left "$task_limit")"
  printf 'sanitized %d tasks, %d at once, after %d s\n' "${#names[@]}" "$jobs" "$SECONDS"
}

# take_sanitizer NAME: what the sanitizer said of the candidate that turned out the fastest goes into the report. 1: it was
# asked about another one.
take_sanitizer() {
  python3 - "$scratch/$1.report" "$scratch/$1.watched" <<'PY'
import json, sys
try:
    report, watched = (json.load(open(path)) for path in sys.argv[1:])
    (row,), (other,) = report["tasks"], watched["tasks"]
    failed = any(check["outcome"] == "failed" for check in other["sanitizer"]["checks"])  # maybe of another candidate
    if failed or row["best"]["candidate"] != other["best"]["candidate"]:
        sys.exit(1)
    row["sanitizer"] = other["sanitizer"]
except (OSError, ValueError, KeyError):
    sys.exit(1)
json.dump(report, open(sys.argv[1], "w"))
PY
}

# measure NAME: its report becomes a line of tasks.jsonl.
measure() {
  local name=$1 candidates=() file bench
  if ((search > 0)); then
    out=$scratch step "$name.search" "$(left $((search + task_limit)))" "$stage/warpsmith" optimize --task "$tasks/$name" \
      --budget "${search}s" --kernels "$scratch/$name" --archive "$scratch/$name.sqlite" --json --quiet
    for file in "$scratch/$name"/*.cu "$tasks/$name"/candidates/*.cu; do
      if [[ -f $file ]]; then candidates+=(--candidate "$file"); fi
    done
  fi
  bench=("$stage/warpsmith" bench --task "$tasks/$name" "${candidates[@]}" "${options[@]}")
  if [[ -s $scratch/$name.watched ]]; then
    out=$scratch step "$name.report" "$(left "$task_limit")" "${bench[@]}"
    if ! take_sanitizer "$name" && (($(left "$shortest") >= shortest)); then rm -f "$scratch/$name.report"; fi
  fi
  if [[ ! -s $scratch/$name.report ]]; then
    out=$scratch step "$name.report" "$(left "$task_limit")" "${bench[@]}" "${sanitizer[@]}"
  fi
  if [[ -s $scratch/$name.report ]]; then
    (
      flock 9
      tr -d '\n' <"$scratch/$name.report" >>"$out/tasks.jsonl" && echo >>"$out/tasks.jsonl"
    ) 9>"$scratch/lock"
  fi
}

# shard GPU NAME...: these tasks on that GPU.
shard() {
  export CUDA_VISIBLE_DEVICES=$1
  shift
  local name
  for name; do
    if is_known "$name"; then continue; fi
    if (($(left "$shortest") < shortest)); then
      echo "$name: not begun: the time is up"
      status=1
      continue
    fi
    measure "$name"
  done
  return "$status"
}

run() {
  local devices=() pids=() i number name
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  mapfile -t devices < <(gpus)
  if ((${#devices[@]} == 0)); then
    echo 'tasks: no GPU is visible'
    return 1
  fi
  CUDA_VISIBLE_DEVICES=${devices[0]} watch_all "$@"
  for i in "${!devices[@]}"; do
    local mine=()
    number=0
    for name; do
      if ((number++ % ${#devices[@]} == i)); then mine+=("$name"); fi
    done
    shard "${devices[i]}" "${mine[@]}" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  return "$status"
}

run "$@" 2>&1 | tee "$out/tasks.txt"
exit "${PIPESTATUS[0]}"

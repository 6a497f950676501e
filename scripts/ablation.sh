#!/usr/bin/env bash
# The comparison of docs/learning.md on a recorded table, from training to plots: every arm is trained with every seed,
# and compared on the held-out problems. Again: goes on where it was stopped.
#   scripts/ablation.sh --table FILE [--work DIRECTORY] [--out DIRECTORY] [--jobs N] [--seeds N] [--config FILE]
#                       [--opponents PYTHON] [--smallest-space N]
# --table: of `warpsmith dataset replay`, or that packed by xz. --work: models and logs (default build/ablation). --out:
# where ablation.csv, summary.json, ablation.txt and plots go (default results/learning). --jobs: trainings at a time,
# each on one CPU as bench/ablation.json, the default of --config, has it (default: one a CPU). --opponents: a Python
# that has kernel-tuner, scikit-learn and numpy; without it those opponents are not run. WARPSMITH: the program.
# Exit codes: 0 all well, 1 not, 2 bad input, 3 something is missing.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
table='' work=$root/build/ablation out=$root/results/learning jobs=$(nproc) seeds=5 config=$root/bench/ablation.json
opponents='' smallest=1500
while (($#)); do
  [[ -n ${2:-} ]] || { echo "ablation: $1 needs a value" >&2 && exit 2; }
  case $1 in
    --table) table=$2 ;;
    --work) work=$2 ;;
    --out) out=$2 ;;
    --jobs) jobs=$2 ;;
    --seeds) seeds=$2 ;;
    --config) config=$2 ;;
    --opponents) opponents=$2 ;;
    --smallest-space) smallest=$2 ;;
    *)
      echo "ablation: unknown option '$1'; accepted: --table, --work, --out, --jobs, --seeds, --config, --opponents, --smallest-space" >&2
      exit 2
      ;;
  esac
  shift 2
done
if ! [[ $jobs =~ ^[1-9][0-9]*$ && $seeds =~ ^[1-9][0-9]*$ && $smallest =~ ^[0-9]+$ ]]; then
  echo "ablation: --jobs $jobs --seeds $seeds --smallest-space $smallest; accepted: whole numbers" >&2
  exit 2
fi
for file in "$table" "$config"; do
  [[ -f $file ]] || { echo "ablation: '$file' is no file" >&2 && exit 2; }
done
warpsmith=${WARPSMITH:-$root/build/release/bin/warpsmith}
[[ -x $warpsmith ]] || { echo "ablation: no program at $warpsmith; build it, or name it in WARPSMITH" >&2 && exit 3; }
mkdir -p "$work" "$out"
# What is in the work directory belongs to these inputs.
inputs=$({ cat "$table" "$config" && echo "$smallest"; } | sha256sum | cut -c 1-12)
if [[ -f $work/inputs && $(<"$work/inputs") != "$inputs" ]]; then
  echo "ablation: $work holds results of another table, configuration or --smallest-space; name another --work" >&2
  exit 2
fi
echo "$inputs" >"$work/inputs"
if [[ $table == *.xz ]]; then
  xz -dc "$table" >"$work/table.new" && mv "$work/table.new" "$work/table.jsonl"
  table=$work/table.jsonl
fi

# train ARM SEED STAGE CHOICE START: a run in $work/ARM-SEED, begun or gone on with; START: of which arm's model.
train() {
  local arm=$1 seed=$2 stage=$3 choice=$4 start=$5 run=$work/$1-$2 how=() start_seconds=$SECONDS
  [[ ! -f $run/done ]] || return 0
  if [[ -f $run/checkpoint.safetensors ]]; then
    how=(--resume)
  else
    python3 - "$config" "$seed" "$choice" >"$work/$arm-$seed.json" <<'EOF'
import json, sys
config = json.load(open(sys.argv[1]))
config["seed"] = int(sys.argv[2])
config.setdefault("exemplars", {})["choice"] = sys.argv[3]
print(json.dumps(config))
EOF
    [[ -z $start ]] || how=(--start "$work/$start-$seed/model.safetensors")
  fi
  "$warpsmith" train --quiet --env "replay:$table" --stage "$stage" --config "$work/$arm-$seed.json" --output "$run" \
    "${how[@]}" >"$work/$arm-$seed.txt" 2>&1 || { echo "$arm, seed $seed: $(tail -n 1 "$work/$arm-$seed.txt")" >&2 && return 1; }
  touch "$run/done"
  echo "$arm, seed $seed: trained in $((SECONDS - start_seconds)) s"
}
export -f train
export work config warpsmith table

# phase LINE...: the trainings of each line, so many at a time.
phase() {
  # shellcheck disable=SC2016  # for the inner shell
  printf '%s\n' "$@" | xargs -P "$jobs" -I{} bash -c \
    'set -euo pipefail; read -r arm seed stage choice start <<<"$1"; train "$arm" "$seed" "$stage" "$choice" "$start"' _ {} \
    || { echo 'ablation: a training failed; the same command goes on' >&2 && exit 1; }
}

first=() second=() third=()
for ((seed = 1; seed <= seeds; ++seed)); do
  first+=("supervised $seed supervised buckets")
  second+=("self $seed self buckets supervised")
  third+=("grpo $seed contrastive none self" "random-exemplars $seed contrastive random self"
    "buckets $seed contrastive buckets self")
done
phase "${first[@]}"
phase "${second[@]}"
phase "${third[@]}"

merged=()
python3 - "$config" "$jobs" >"$work/evaluate.json" <<'EOF'
import json, sys
print(json.dumps({**json.load(open(sys.argv[1])), "threads": int(sys.argv[2])}))
EOF
for ((seed = 1; seed <= seeds; ++seed)); do
  csv=$work/compared-$seed.csv
  merged+=(--add-csv "$csv")
  [[ ! -f $csv ]] || continue
  arms=()
  for arm in random evolution start nearest performance-model; do arms+=(--arm "$arm"); done
  for arm in supervised,none self,none grpo,none random-exemplars,random buckets,buckets; do
    arms+=(--arm "${arm%,*}=$work/${arm%,*}-$seed/model.safetensors,${arm#*,}")
  done
  arms+=(--arm "buckets-estimate=$work/buckets-$seed/model.safetensors,buckets,estimate")
  "$warpsmith" train --evaluate --quiet --env "replay:$table" --config "$work/evaluate.json" --seeds 1 --first-seed "$seed" \
    --smallest-space "$smallest" "${arms[@]}" --csv "$csv.new" >"$work/compared-$seed.txt"
  mv "$csv.new" "$csv"
  echo "seed $seed: compared after $SECONDS s"
done
if [[ -n $opponents ]]; then
  if [[ ! -f $work/opponents.csv ]]; then
    "$opponents" "$root/bench/learning_opponents.py" --replay "$table" --warpsmith "$warpsmith" --seeds "$seeds" \
      --smallest-space "$smallest" --jobs "$jobs" --out "$work/opponents.new"
    mv "$work/opponents.new" "$work/opponents.csv"
  fi
  merged+=(--add-csv "$work/opponents.csv")
else
  echo 'Kernel Tuner and boosted trees: not run, --opponents names no Python'
fi
"$warpsmith" train --evaluate "${merged[@]}" --csv "$out/ablation.csv" --summary "$out/summary.json" >"$out/ablation.txt"
# The first seed's counts stand for what was compared; every seed has the same problems.
sed '/^Mean/,$d' "$work/compared-1.txt" >>"$out/ablation.txt"
logs=()
for arm in self grpo random-exemplars buckets; do logs+=(--log "$work/$arm-1/log.jsonl"); done
python3 "$root/bench/learning_plots.py" --csv "$out/ablation.csv" "${logs[@]}" --out "$out"
cat "$out/ablation.txt"

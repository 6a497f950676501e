#!/usr/bin/env bash
# On a GPU host: profiles the ten best and the ten worst shapes of a survey, our kernel and the one that cuBLAS takes by
# default (through PyTorch), with Nsight Compute, into one CSV; with what scripts/stage.sh made.
#   scripts/gpu/ncu.sh GRID-OFFLINE.CSV [COUNT]      COUNT: of the best, and of the worst (default 10)
# Results: ${OUT:-results/h200}/{ncu.csv,ncu.txt}. Each row: shape, whose kernel, its name, metric, unit, value; of one
# launch at the clocks that the device chooses, cache control off, after several that warm up. Exit codes: 0 all well,
# 1 not, 2 bad input, 3 nothing staged or no ncu.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
grid=${1:-} count=${2:-10}
if [[ ! -f $grid || ! $count =~ ^[0-9]+$ ]]; then
  echo "ncu: usage: scripts/gpu/ncu.sh GRID-OFFLINE.CSV [COUNT]" >&2
  exit 2
fi
PATH=$PATH:/usr/local/cuda/bin
command -v ncu >/dev/null || { echo "ncu: there is no Nsight Compute on the path" >&2 && exit 3; }
readonly limit_seconds=60  # of one profile
metrics=(gpu__time_duration.sum sm__throughput.avg.pct_of_peak_sustained_elapsed
  sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active
  dram__throughput.avg.pct_of_peak_sustained_elapsed dram__bytes.sum
  lts__t_sectors.avg.pct_of_peak_sustained_elapsed lts__t_sector_hit_rate.pct
  sm__warps_active.avg.pct_of_peak_sustained_active smsp__issue_active.avg.pct_of_peak_sustained_active
  launch__grid_size launch__waves_per_multiprocessor launch__registers_per_thread
  smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
  smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
  smsp__average_warps_issue_stalled_wait_per_issue_active.ratio
  smsp__average_warps_issue_stalled_membar_per_issue_active.ratio
  smsp__average_warps_issue_stalled_sleeping_per_issue_active.ratio)
readonly metrics

# M N K LAYOUT RATIO RECIPE of the best and the worst by lt_auto_us / ours_us, tab-separated.
extremes() {
  python3 - "$grid" "$count" <<'PY'
import csv, sys
lines = [line for line in open(sys.argv[1]) if not line.startswith("#")]
rows = [row for row in csv.DictReader(lines) if row["ours_us"] and row["lt_auto_us"]]
rows.sort(key=lambda row: float(row["lt_auto_us"]) / float(row["ours_us"]))
count = int(sys.argv[2])
for row in rows[:count] + rows[len(rows) - count:] if len(rows) > 2 * count else rows:
    layout = "nn" if row["ours_nn_us"] == row["ours_us"] else "tn"
    print(row["m"], row["n"], row["k"], layout, "%.4f" % (float(row["lt_auto_us"]) / float(row["ours_us"])), row["recipe"], sep="\t")
PY
}

# profile SHAPE RATIO WHOSE SKIP REGEX COMMAND...: rows of the first kernel after SKIP whose name fits.
profile() {
  local shape=$1 ratio=$2 whose=$3 skip=$4 regex=$5 code=0
  shift 5
  timeout --kill-after=5 "$limit_seconds" ncu --clock-control none --cache-control none --target-processes all --csv \
    --metrics "$(IFS=, && echo "${metrics[*]}")" --launch-skip "$skip" --launch-count 1 --kernel-name "regex:$regex" \
    "$@" >"$scratch/ncu.out" 2>&1 || code=$?
  python3 - "$scratch/ncu.out" "$shape" "$ratio" "$whose" >>"$out/ncu.csv" <<'PY'
import csv, sys
path, shape, ratio, whose = sys.argv[1:]
lines = open(path, errors="replace").read().splitlines()
start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
writer = csv.writer(sys.stdout, lineterminator="\n")
for row in csv.DictReader(lines[start:]) if start is not None else []:
    if row.get("Metric Name"):
        writer.writerow([shape, ratio, whose, row["Kernel Name"].split("(")[0], row["Metric Name"], row["Metric Unit"], row["Metric Value"]])
PY
  printf '%-22s %-4s exit code %d, %d rows\n' "$shape" "$whose" "$code" "$(grep -c "^$shape,$ratio,$whose" "$out/ncu.csv")"
}

# What the library takes by default; on rows of A in both layouts.
readonly library='
import sys, torch
m, n, k = map(int, sys.argv[1:4])
a = torch.randn(m, k, device="cuda", dtype=torch.half)
b = torch.randn(n, k, device="cuda", dtype=torch.half).t() if sys.argv[4] == "tn" else torch.randn(k, n, device="cuda", dtype=torch.half)
for _ in range(6):
    a @ b
torch.cuda.synchronize()
'

run() {
  local m n k layout ratio recipe shape
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  ncu --version | tail -n 1
  echo 'shape,lt_auto_over_ours,whose,kernel,metric,unit,value' >"$out/ncu.csv"
  while IFS=$'\t' read -r m n k layout ratio recipe; do
    shape=${m}x${n}x$k-$layout
    # Kernels of ours run in gates first.
    profile "$shape" "$ratio" ours 20 '^warpsmith_' "$stage/warpsmith" bench "$m" "$n" "$k" --layout "$layout" \
      --target sm90 --recipe "$recipe" --verify --json
    profile "$shape" "$ratio" cublas 3 'nvjet|cutlass|gemm|xmma' python3 -c "$library" "$m" "$n" "$k" "$layout"
  done < <(extremes)
  printf '%d rows in %s\n' "$(($(wc -l <"$out/ncu.csv") - 1))" "$out/ncu.csv"
  (($(wc -l <"$out/ncu.csv") > 1))
}

run 2>&1 | tee "$out/ncu.txt"
exit "${PIPESTATUS[0]}"

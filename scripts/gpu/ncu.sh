#!/usr/bin/env bash
# On a GPU host: profiles the ten best and the ten worst shapes of a survey, the library's kernel of the survey's recipe and
# the one that cuBLAS takes by default (both called from Python, with PyTorch's tensors), with Nsight Compute, into one CSV;
# with what scripts/stage.sh made and this checkout.
#   scripts/gpu/ncu.sh GRID-OFFLINE.CSV [COUNT]      COUNT: of the best, and of the worst (default 10)
# The wisdom file of the GPU (WARPSMITH_WISDOM, or wisdom/GPU.jsonl) has to hold these shapes.
# Results: ${OUT:-results/h200}/{ncu.csv,ncu.txt}. Each row: shape, whose kernel, its name, metric, unit, value; of one
# launch at the clocks that the device chooses, cache control off, after several that warm up. METRICS: more of them than
# these, separated by spaces. Exit codes: 0 all well, 1 not, 2 bad input, 3 nothing staged or no ncu.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
# shellcheck source=scripts/gpu/wisdom.sh
source "$here/wisdom.sh"
grid=${1:-} count=${2:-10}
if [[ ! -f $grid || ! $count =~ ^[0-9]+$ ]]; then
  echo "ncu: usage: scripts/gpu/ncu.sh GRID-OFFLINE.CSV [COUNT]" >&2
  exit 2
fi
PATH=$PATH:/usr/local/cuda/bin
command -v ncu >/dev/null || { echo "ncu: there is no Nsight Compute on the path" >&2 && exit 3; }
readonly runner=$root/python/profile_products.py
for file in "$runner" "${WARPSMITH_WISDOM:-the wisdom of this GPU}"; do
  [[ -f $file ]] || { echo "ncu: $file is missing" >&2 && exit 3; }
done
readonly limit_seconds=200  # of one side
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
read -ra more <<<"${METRICS:-}"
metrics+=("${more[@]}")
readonly metrics

# "M N K LAYOUT RATIO" of the worst and of the best by lt_auto_us / ours_us; into $scratch/wisdom.jsonl, what the wisdom
# file says of them, without what would make the library take cuBLASLt or a kernel for dependent launch.
extremes() {
  python3 - "$grid" "$count" "$WARPSMITH_WISDOM" "$scratch/wisdom.jsonl" <<'PY'
import csv, json, sys
grid, count, wisdom, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
rows = [row for row in csv.DictReader(line for line in open(grid) if not line.startswith("#")) if row["ours_us"] and row["lt_auto_us"]]
ratio = lambda row: float(row["lt_auto_us"]) / float(row["ours_us"])
rows.sort(key=ratio)
rows = rows[:count] + rows[len(rows) - count:] if len(rows) > 2 * count else rows
recipes = {}
for row in rows:
    layout = "nn" if row["ours_nn_us"] == row["ours_us"] else "tn"
    recipes["{m}x{n}x{k} ".format(**row) + layout + " f16 f32"] = row["recipe"]
    print(row["m"], row["n"], row["k"], layout, "%.4f" % ratio(row))
with open(out, "w") as file:
    for line in open(wisdom):
        entry = json.loads(line)
        if "warpsmith_wisdom" in entry:
            file.write(line)
        elif entry.get("problem") in recipes:
            if entry["recipe"] != recipes[entry["problem"]]:
                print(f"ncu: {entry['problem']}: the wisdom has another recipe than the survey", file=sys.stderr)
            for name in [name for name in entry if name.startswith("pdl_") or name.startswith("call_")]:
                del entry[name]
            entry["ratio"] = max(2.0, entry.get("ratio", 0))
            for ours, theirs in (("cold_us", "baseline_us"), ("warm_us", "baseline_warm_us")):
                if entry.get(ours):
                    entry[theirs] = max(2 * entry[ours], entry.get(theirs, 0))
            file.write(json.dumps(entry) + "\n")
PY
}

# profile WHOSE REGEX SUBJECT: rows of every product in $scratch/products.
profile() {
  local whose=$1 regex=$2 subject=$3 code=0
  cut -d ' ' -f 1-4 "$scratch/products" >"$scratch/shapes"
  timeout --kill-after=5 "$limit_seconds" ncu --profile-from-start off --clock-control none --cache-control none \
    --target-processes all --csv --metrics "$(IFS=, && echo "${metrics[*]}")" --kernel-name "regex:$regex|elementwise|FillFunctor" \
    python3 "$runner" "$subject" <"$scratch/shapes" >"$scratch/ncu.out" 2>"$scratch/ncu.err" || code=$?
  ((code == 0)) || { status=1 && tail -n 5 "$scratch/ncu.err"; }
  python3 - "$scratch/ncu.out" "$scratch/products" "$whose" "$regex" "$out/ncu.csv" <<'PY'
import csv, re, sys
output, products, whose, regex, path = sys.argv[1:]
lines = open(output, errors="replace").read().splitlines()
start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
shapes = [line.split() for line in open(products)]
at, last, found = -1, None, set()
with open(path, "a") as file:
    writer = csv.writer(file, lineterminator="\n")
    for row in csv.DictReader(lines[start:]) if start is not None else []:
        name = row["Kernel Name"].split("(")[0]
        ours = re.search(regex, name) is not None
        if not ours and row["ID"] != last:
            at += 1  # a fill: the next product's kernels follow
        last = row["ID"]
        if not ours or not 0 <= at < len(shapes) or not row.get("Metric Name"):
            continue
        m, n, k, layout, ratio = shapes[at]
        found.add(at)
        writer.writerow([f"{m}x{n}x{k}-{layout}", ratio, whose, name, row["Metric Name"], row["Metric Unit"], row["Metric Value"]])
print(f"{whose}: {len(found)} of {len(shapes)} products profiled")
sys.exit(0 if len(found) == len(shapes) else 1)
PY
  local complete=$?
  ((complete == 0)) || status=1
}

run() {
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  ncu --version | tail -n 1
  extremes >"$scratch/products" || return 1
  echo 'shape,lt_auto_over_ours,whose,kernel,metric,unit,value' >"$out/ncu.csv"
  export WARPSMITH_WISDOM=$scratch/wisdom.jsonl
  profile cublas 'nvjet|cutlass|gemm|xmma' cublas
  # Compiled ahead, so that the profiler does not follow a compiler.
  sed 's/ [^ ]*$//' "$scratch/products" | python3 "$runner" "$stage/libwarpsmith.so" || status=1
  profile ours '^warpsmith_' "$stage/libwarpsmith.so"
  printf '%d rows in %s\n' "$(($(wc -l <"$out/ncu.csv") - 1))" "$out/ncu.csv"
  (($(wc -l <"$out/ncu.csv") > 1)) || status=1
  return "$status"
}

run 2>&1 | tee "$out/ncu.txt"
exit "${PIPESTATUS[0]}"

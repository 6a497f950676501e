#!/usr/bin/env bash
# On a GPU host with nvcc: exports the kernels of a wisdom file, compiles a sample of them in parallel, runs each one's
# self-check, with what scripts/stage.sh made. Results: ${OUT:-results/h200}/{export.jsonl,export.txt}.
#   scripts/gpu/export.sh [--wisdom FILE] [--sample COUNT] [--limit SECONDS]
# --wisdom: default the only .jsonl in wisdom/. --sample: default 60, spread over the file; 0: all. --limit: of all
# compiling, default 400. Exit codes: 0 all compiled and right, 1 not, 2 bad input, 3 no nvcc, no wisdom, nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
wisdom='' sample=60 limit=400
while (($#)); do
  case $1 in
    --wisdom | --sample | --limit)
      [[ -n ${2:-} ]] || { echo "export: $1 needs a value" >&2 && exit 2; }
      case $1 in
        --wisdom) wisdom=$2 ;;
        --sample) sample=$2 ;;
        --limit) limit=$2 ;;
      esac
      shift 2
      ;;
    *)
      echo "export: unknown option '$1'; accepted: --wisdom, --sample, --limit" >&2
      exit 2
      ;;
  esac
done
if ! [[ $sample =~ ^[0-9]+$ && $limit =~ ^[0-9]+$ ]]; then
  echo 'export: --sample and --limit take whole numbers' >&2
  exit 2
fi
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[[ -x $nvcc ]] || { echo 'export: there is no nvcc here' >&2 && exit 3; }
if [[ -z $wisdom ]]; then
  files=("$root"/wisdom/*.jsonl)
  [[ ${#files[@]} == 1 && -f ${files[0]} ]] || { echo 'export: name a wisdom file with --wisdom' >&2 && exit 3; }
  wisdom=${files[0]}
fi
kernels=$scratch/kernels

# One file to its program; nothing is printed unless it fails. Called by name.
# shellcheck disable=SC2317
compile() {
  local log
  log=$("$1" -std=c++20 -O3 -arch=sm_90a -DWARPSMITH_EXPORT_MAIN -o "${2%.cu}" "$2" 2>&1) || printf '%s\n%s\n' "$2" "$log"
}
export -f compile

check_all() {
  local file name code
  while IFS= read -r file; do
    name=$(basename "$file" .cu) code=0
    if [[ ! -x ${file%.cu} ]]; then
      printf '{"kernel": "%s", "right": false, "compiled": false}\n' "$name"
      continue
    fi
    timeout 60 "${file%.cu}" --json || code=$?
    # A kernel that is wrong (1) has said so itself.
    if ((code > 1)); then printf '{"kernel": "%s", "right": false, "exit_code": %d}\n' "$name" "$code"; fi
  done
}

{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || exit 3
  "$stage/warpsmith" export --wisdom "$wisdom" --output "$kernels" || exit 1
  list=$scratch/list
  find "$kernels" -name '*.cu' | sort -V >"$scratch/all"
  count=$(wc -l <"$scratch/all")
  ((sample > 0 && sample < count)) || sample=$count
  awk -v n="$count" -v s="$sample" 'int((NR - 1) * s / n) != int(NR * s / n)' "$scratch/all" >"$list"
  start=$SECONDS
  timeout "$limit" xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ "$nvcc" {} <"$list" || true
  printf 'compiled in %d s\n' $((SECONDS - start))
  check_all <"$list" >"$out/export.jsonl"
  right=$(grep -c '"right": true' "$out/export.jsonl")
  printf '%s of %s sampled kernels (of %s) compile and are right\n' "$right" "$(wc -l <"$list")" "$count"
  grep -v '"right": true' "$out/export.jsonl"
  printf '%-46s %12s %10s %12s\n' kernel 'error/bound' 'time us' 'measured us'
  while IFS= read -r file; do
    name=$(basename "$file" .cu)
    sed -n "s/.*\"kernel\": \"$name\".*\"error_over_bound\": \"\([^\"]*\)\".*\"time_us\": \([^,]*\),.*/\1 \2/p" "$out/export.jsonl" \
      | { read -r error time && printf '%-46s %12s %10s %12s\n' "${name#warpsmith_hgemm_}" "$error" "$time" \
        "$(sed -n 's|^// Measured .*caches, \([^ ]*\) us with them.*|\1|p' "$file" | head -n 1)"; }
  done <"$list"
  [[ $right == $(wc -l <"$list") ]]
} 2>&1 | tee "$out/export.txt"
exit "${PIPESTATUS[0]}"

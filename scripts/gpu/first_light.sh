#!/usr/bin/env bash
# On a GPU host: proves both CUDA families on many shapes, compares them with cuBLASLt, and optimises three problems,
# with what scripts/stage.sh made. Results: ${OUT:-results/h200}/{verify-FAMILY.jsonl,bench-tn.jsonl,
# optimize-M-N-K.json,summary.txt}; bench/first_light.py turns them into results/h200/first-light.json.
#   scripts/gpu/first_light.sh [STEP...]      STEP: verify, bench, optimize; default all. BUDGET of one search: 45s
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
budget=${BUDGET:-45s}
steps=${*:-verify bench optimize}
readonly shapes=$root/bench/shapes/first-light.txt

# Gates of the first starting point of both families, NN and TN.
verify() {
  local family
  for family in sm90 sm80; do
    step "verify-$family.jsonl" 200 "$stage/warpsmith" bench --shapes "$shapes" --layout both --target sm90 \
      --family "$family" --first 1 --verify --json
    printf '  %s of %s accepted\n' "$(grep -c '"kind":"accepted"' "$out/verify-$family.jsonl")" "$(wc -l <"$out/verify-$family.jsonl")"
  done
}

# The fastest of the first starting points of both families, interleaved with all baselines.
bench() {
  step bench-tn.jsonl 400 "$stage/warpsmith" bench --shapes "$shapes" --layout tn --target sm90 --first 3 --effort 100ms --json
}

optimize() {
  local shape m n k
  for shape in '4096 4096 4096' '1024 1024 4096' '64 4096 64'; do
    read -r m n k <<<"$shape"
    step "optimize-$m-$n-$k.json" 200 "$stage/warpsmith" optimize "$m" "$n" "$k" --layout tn --target sm90 \
      --budget "$budget" --json
  done
}

for name in $steps; do
  case $name in
    verify | bench | optimize) ;;
    *)
      echo "first_light: unknown step '$name'; accepted: verify, bench, optimize" >&2
      exit 2
      ;;
  esac
done
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  for name in $steps; do $name; done
  exit "$status"
} 2>&1 | tee "$out/summary.txt"
exit "${PIPESTATUS[0]}"

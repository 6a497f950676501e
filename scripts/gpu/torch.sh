#!/usr/bin/env bash
# On a GPU host with PyTorch and g++: builds the PyTorch operator against the staged libwarpsmith and tests it, then runs
# python/examples/decoder_block.py plain and with the interposer preloaded, in turn.
#   scripts/gpu/torch.sh [STEP...]     STEP: build, test, decoder; default all. ROUNDS of the decoder: 3; TYPE: f16
# Kernels and choices come from WARPSMITH_WISDOM and WARPSMITH_PACK where they are set, else from wisdom/h200.jsonl and
# NVRTC. Results: ${OUT:-results/h200}/{torch.txt,torch-build.txt,torch-test.txt,interposer.json,interposer-calls.jsonl}.
# The steps are called by name.
# shellcheck disable=SC2317
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
steps=${*:-build test decoder}
readonly rounds=${ROUNDS:-3} type=${TYPE:-f16}
readonly python=${WARPSMITH_PYTHON:-python3} site=${SITE:-$root/build/torch-site}
readonly block=$root/python/examples/decoder_block.py interposer=$stage/libwarpsmith_cublas.so
if [[ -z ${WARPSMITH_WISDOM:-} && -f $root/wisdom/h200.jsonl ]]; then export WARPSMITH_WISDOM=$root/wisdom/h200.jsonl; fi
# Kernels that one process compiled are the next one's: the cache outlives the steps.
export WARPSMITH_CACHE=${KERNEL_CACHE:-$root/build/torch-kernels}

build() {
  local library
  library=$(find "$stage" -maxdepth 1 -name 'libwarpsmith.so*' | sort | tail -n 1)
  step torch-build.txt 300 env WARPSMITH_LIBRARY="$library" WARPSMITH_INCLUDE="$root/include" \
    "$python" "$root/python/setup.py" build_ext --build-lib "$site" --build-temp "$scratch/torch-build"
  cp "$root"/python/warpsmith/*.py "$site/warpsmith/"
}

test_operator() {
  step torch-test.txt 300 env PYTHONPATH="$site" PYTHONFAULTHANDLER=1 bash -c "exec '$python' '$root/python/tests/test_matmul.py' -v 2>&1"
  grep -E '^(Ran|OK|FAILED)|(FAIL|ERROR|skipped)' "$out/torch-test.txt" | head -n 20
  if grep -q skipped "$out/torch-test.txt"; then status=1; fi
}

decoder() {
  local round plain=() preloaded=() kept=$out
  local out=$scratch/runs  # what step() writes: only the summary is kept
  mkdir -p "$out"
  # Chooses and compiles, unmeasured.
  step warm-up 550 env LD_PRELOAD="$interposer" "$python" "$block" run "$out/warm-up.json" --seconds 0 --type "$type"
  for ((round = 1; round <= rounds; ++round)); do
    step "plain-$round" 200 "$python" "$block" run "$out/plain-$round.json" --type "$type"
    step "preloaded-$round" 200 env LD_PRELOAD="$interposer" "$python" "$block" run "$out/preloaded-$round.json" --type "$type"
    plain+=("$out/plain-$round.json")
    preloaded+=("$out/preloaded-$round.json")
  done
  rm -f -- "$kept/interposer-calls.jsonl"
  step logged 200 env LD_PRELOAD="$interposer" WARPSMITH_INTERPOSE_LOG="$kept/interposer-calls.jsonl" \
    "$python" "$block" run "$out/logged.json" --seconds 0 --type "$type"
  tail -n 1 "$kept/interposer-calls.jsonl"
  local IFS=,
  out=$kept
  step interposer.json 60 "$python" "$block" compare "${plain[*]}" "${preloaded[*]}"
  "$python" - "$out/interposer.json" <<'END'
import json, sys
for row in json.load(open(sys.argv[1]))["interposer"]:
    print("{phase:8} {tokens:5}  end to end {end_to_end:.3f}  eager {end_to_end_eager:.3f}  products {gemm_only:.3f}  "
          "{0}".format("right" if row["within_bound"] else "WRONG", **row))
END
}

for name in $steps; do
  case $name in
    build | test | decoder) ;;
    *)
      echo "torch: unknown step '$name'; accepted: build, test, decoder" >&2
      exit 2
      ;;
  esac
done
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  for name in $steps; do
    if [[ $name == test ]]; then test_operator; else $name; fi
  done
  exit "$status"
} 2>&1 | tee "$out/torch.txt"
exit "${PIPESTATUS[0]}"

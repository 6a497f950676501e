#!/usr/bin/env bash
# On a GPU host: says what is there and runs the staged GPU tests. Needs what scripts/stage.sh made, no compiler.
#   scripts/gpu/check.sh [NAME...]     from a checkout with its stage.tar.xz or stage/; or stage/check.sh with stage/ alone
# NAME: only the tests whose file name contains one of them. Results go to ${OUT:-results/h200}/check.txt, and each
# test's own output to check-TEST.txt beside it. Exit codes: 0 all passed, 1 a test failed, 3 no GPU or nothing staged.
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/staged.sh
source "$here/staged.sh"
out=${OUT:-results/h200}
# shellcheck source=scripts/gpu/wisdom.sh
source "$here/wisdom.sh"
readonly limit_seconds=${LIMIT_SECONDS:-240}  # of one test binary
mkdir -p "$out" || exit 3

machine() {
  command -v nvidia-smi >/dev/null || return 3
  nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.mem --format=csv \
    || return 3
  printf 'toolkit: %s\n' "$(readlink -f /usr/local/cuda 2>/dev/null || echo 'none at /usr/local/cuda')"
  local library
  for library in libcuda.so.1 libnvrtc.so libcublasLt.so; do
    printf '%s: %s\n' "$library" \
      "$({ ldconfig -p | sed -n "s|.*$library.* => ||p"; compgen -G "/usr/local/cuda/lib64/$library*"; } | head -n 1)"
  done
  "$stage/warpsmith" info || printf 'info: exit code %d\n' "$?"
}

run_tests() {
  local test name status failed=0 passed=0 skipped=0 log
  for test in "$stage"/tests/*; do
    [[ -x $test && ! -L $test ]] || continue
    name=${test##*/}
    if (($#)) && ! grep -qF "$(printf '%s\n' "$@")" <<<"$name"; then continue; fi
    log=$out/check-$name.txt
    timeout --kill-after=10 "$limit_seconds" "$test" >"$log" 2>&1
    status=$?
    if ((status == 0)) && grep -q '^\[  SKIPPED \]' "$log"; then
      skipped=$((skipped + 1))
      printf 'skipped  %s\n' "$name"
    elif ((status == 0)); then
      passed=$((passed + 1))
      printf 'passed   %s (%s)\n' "$name" "$(sed -n 's/^\[==========\] \(.* ran\)\./\1/p' "$log")"
    else
      failed=$((failed + 1))
      printf 'FAILED   %s (exit code %d)\n' "$name" "$status"
      grep -E -A 8 'Failure$|^\[  FAILED  \]' "$log" | head -n 40
    fi
  done
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  ((failed == 0 && passed > 0))
}

{
  machine || { echo 'check: no GPU here' && exit 3; }
  run_tests "$@"
} 2>&1 | tee "$out/check.txt"
exit "${PIPESTATUS[0]}"

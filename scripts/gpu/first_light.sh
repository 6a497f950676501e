#!/usr/bin/env bash
# On a GPU host: the first end-to-end runs. Optimises three shapes (large, mid-sized, skinny) against cuBLASLt with what
# scripts/stage.sh made. Needs no compiler. Results, one JSON file a shape: ${OUT:-results/h200}/optimize-M-N-K.json.
#   scripts/gpu/first_light.sh [BUDGET]      BUDGET of one search, default 60s
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
stage=$here
[[ -x $stage/warpsmith ]] || stage=$(cd -- "$here/../.." && pwd -P)/stage
out=${OUT:-results/h200}
budget=${1:-60s}
if [[ ! -x $stage/warpsmith ]]; then
  echo "first_light: nothing staged at $stage; run scripts/stage.sh first" >&2
  exit 3
fi
mkdir -p "$out" || exit 3
# The archive and the kernels that were found travel back with the results.
WARPSMITH_DATA=$(cd -- "$out" && pwd -P)/data
export WARPSMITH_DATA

status=0
for shape in '4096 4096 4096' '1024 1024 4096' '64 4096 64'; do
  read -r m n k <<<"$shape"
  file=$out/optimize-$m-$n-$k.json
  code=0
  "$stage/warpsmith" optimize "$m" "$n" "$k" --target sm90 --budget "$budget" --json >"$file" 2>"$file.log" || code=$?
  if ((code == 0)); then
    echo "optimize $shape: done, $file"
  else
    status=1
    echo "optimize $shape: FAILED, exit code $code"
    tail -n 5 "$file.log"
  fi
done
exit "$status"

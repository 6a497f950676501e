#!/usr/bin/env bash
# On a GPU host: the reward server with good, wrong, crashing and greedy candidates, killed and started again, with what
# scripts/stage.sh made. Results: ${OUT:-results/h200}/serve.json. Needs python3. Exit codes: 0 as it must be, 1 not.
#   scripts/gpu/serve.sh [--hang]      --hang: also a kernel that never ends, which takes a minute
set -uo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=scripts/gpu/steps.sh
source "$here/steps.sh"
command -v python3 >/dev/null || { echo "serve: there is no python3" >&2 && exit 3; }
[[ -f $root/bench/serve_gpu.py ]] || { echo "serve: $root/bench is missing: copy the checkout, not stage/ alone" >&2 && exit 3; }
step serve.json 480 python3 "$root/bench/serve_gpu.py" --program "$stage/warpsmith" "$@"
cat "$out/serve.json"
exit "$status"

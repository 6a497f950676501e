# What the scripts for a GPU host share: where things are, a scratch directory of their own, steps under a time limit.
# Sourced; sets root, stage, out, scratch and status. Ends the script with 3 where nothing is staged.
# shellcheck shell=bash disable=SC2034

# shellcheck source=scripts/gpu/staged.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/staged.sh"
out=${OUT:-$root/results/h200}
mkdir -p "$out" || exit 3
out=$(cd -- "$out" && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
export WARPSMITH_DATA=$scratch/data WARPSMITH_CACHE=${KERNEL_CACHE:-$scratch/cache}  # KERNEL_CACHE: kept
status=0

# step NAME LIMIT COMMAND...: its output in $out/NAME; says how it went and how long it took.
step() {
  local name=$1 limit=$2 start=$SECONDS code=0
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$out/$name" 2>"$scratch/$name.log" || code=$?
  printf '%-32s exit code %d, %d s\n' "$name" "$code" $((SECONDS - start))
  if ((code != 0)); then
    status=1
    tail -n 3 "$scratch/$name.log"
  fi
}

# gpus: the GPUs that programs started here may use, one a line, each as CUDA_VISIBLE_DEVICES takes it.
gpus() {
  if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
    tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES"
  else
    nvidia-smi --query-gpu=index --format=csv,noheader
  fi
}

# known_steps ACCEPTED NAME...: ends the script with 2 at a NAME that is none of ACCEPTED, separated by spaces.
known_steps() {
  local accepted=$1 name
  shift
  for name; do
    if [[ " $accepted " != *" $name "* ]]; then
      echo "$(basename -- "$0" .sh): unknown step '$name'; accepted: ${accepted// /, }" >&2
      exit 2
    fi
  done
}

# run_steps LOG ACCEPTED NAME...: calls the functions NAME in order, whose words also go to $out/LOG, and ends the script
# with their status. ACCEPTED: all that there are, separated by spaces; another NAME ends it with 2 before any is called.
run_steps() {
  local log=$1 accepted=$2 name
  shift 2
  known_steps "$accepted" "$@"
  {
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
    for name; do $name; done
    exit "$status"
  } 2>&1 | tee "$out/$log"
  exit "${PIPESTATUS[0]}"
}

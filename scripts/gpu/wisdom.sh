# Exports WARPSMITH_WISDOM, the checkout's file of the GPU that is here, unless it is set. Sourced after staged.sh.
# shellcheck shell=bash disable=SC2154

if [[ -z ${WARPSMITH_WISDOM:-} ]]; then
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr '[:upper:]' '[:lower:]' \
    | sed 's/^nvidia //; s/[^a-z0-9]\+/-/g')
  if [[ -n $gpu && -r $root/wisdom/$gpu.jsonl ]]; then export WARPSMITH_WISDOM=$root/wisdom/$gpu.jsonl; fi
fi

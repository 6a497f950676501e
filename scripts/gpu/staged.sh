# Where scripts/stage.sh's programs lie on a GPU host: sets root, and stage to the folder with them, which is unpacked
# from stage.tar.xz where that has come along. Ends the script with 3 where nothing is staged. Sourced.
# shellcheck shell=bash disable=SC2034

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
stage=$root/stage
packed=$root/stage.tar.xz
if [[ -x $(dirname -- "${BASH_SOURCE[0]}")/warpsmith ]]; then  # stage/ alone was copied
  stage=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
elif [[ -f $packed && ! $stage/warpsmith -nt $packed ]]; then
  mkdir -p "$stage" && tar -C "$stage" --touch -xJf "$packed" || exit 3
fi
if [[ ! -x $stage/warpsmith ]]; then
  echo "$(basename -- "$0" .sh): nothing staged at $stage; run scripts/stage.sh first" >&2
  exit 3
fi
# Tests look for the worker programs beside themselves.
if [[ -d $stage/tests ]]; then
  for name in "$stage"/warpsmith-*; do ln -sf "../${name##*/}" "$stage/tests/${name##*/}"; done
fi

#!/usr/bin/env bash
# Style gates: clang-format on the sources, ShellCheck on the scripts. That each header compiles alone is a test
# (headers_compile_alone). With --fix, formats the sources instead.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

# Versions of clang-format disagree; Debian 12's is the one that counts.
readonly format_version=14
status=0

mapfile -d '' sources < <(find src apps tests -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print0 | sort -z)
version=$(clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p' || true)
if [[ ${1:-} == --fix ]]; then
  clang-format -i "${sources[@]}"
  exit
fi
if [[ $version == "$format_version" ]]; then
  if clang-format --dry-run --Werror "${sources[@]}"; then
    echo "clang-format: ${#sources[@]} files well formed"
  else
    echo "clang-format: run scripts/check-style.sh --fix"
    status=1
  fi
else
  echo "clang-format: not checked (this gate needs version $format_version, found ${version:-none})"
fi

scripts=(run test .ci/run scripts/*.sh scripts/*/*.sh)
if command -v shellcheck >/dev/null; then
  if shellcheck -x "${scripts[@]}"; then echo "shellcheck: ${#scripts[@]} scripts clean"; else status=1; fi
else
  echo "shellcheck: not checked (not installed)"
fi
exit "$status"

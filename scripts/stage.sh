#!/usr/bin/env bash
# Builds what a GPU run needs and gathers it in stage/, and packed in stage.tar.xz, to be copied to a GPU host that has
# a driver and a CUDA toolkit (its libraries, at /usr/local/cuda or on the loader's path) but neither compilers nor our
# packages. No GPU is needed here. Third-party code and the C++ runtime are linked statically; the script fails when
# anything else slips in.
#   scripts/stage.sh                 then, on the GPU host:  scripts/gpu/check.sh  or  stage/check.sh
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/build.sh
source "$root/scripts/build.sh"
readonly size_limit=$((30 * 1000 * 1000))  # bytes of stage.tar.xz
# What a binary may need of the host: glibc, the driver, and the toolkit's libraries.
readonly allowed='^(libc|libm|libdl|librt|libpthread|ld-linux-x86-64|libcuda|libcudart|libnvrtc|libcublas|libcublasLt)\.so(\.[0-9]+)*$'

# Not warpsmith-onednn.so: it serves the CPU baselines alone, and a GPU host has no oneDNN for it.
programs=(warpsmith warpsmith-worker-cpu warpsmith-worker-cuda warpsmith-nvrtc warpsmith-sandbox warpsmith-task-host warpsmith-audit-host
  warpsmith-audit-judge)
# shellcheck disable=SC2034  # read by build
targets=("${programs[@]}" warpsmith_shared warpsmith_cublas gpu_tests)
build stage test src apps tests include
bin=$root/build/stage/bin stage=$root/stage
rm -rf -- "$stage"
mkdir -p "$stage/tests"

for program in "${programs[@]}"; do
  strip -o "$stage/$program" "$bin/$program"
done
ctest --test-dir "$root/build/stage" --show-only --verbose -L '^gpu$' --no-tests=ignore \
  | sed -n 's/^[0-9]*: Test command: //p' | sed 's/\\\(.\)/\1/g' | while IFS= read -r program; do
  strip -o "$stage/tests/${program##*/}" "$program"
done
strip -o "$stage/libwarpsmith.so.0" "$root/build/stage/lib/libwarpsmith.so.0"
ln -s libwarpsmith.so.0 "$stage/libwarpsmith.so"
strip -o "$stage/libwarpsmith_cublas.so" "$root/build/stage/lib/libwarpsmith_cublas.so"
cp -R "$root/include" "$stage/"
cp -R "$bin/attacks" "$stage/"  # what the attack suite reads
strip "$stage/attacks/naive-harness"
if [[ -d $bin/models ]]; then cp -R "$bin/models" "$stage/"; fi
cp -R "$bin/prompts" "$stage/"
cp "$root"/scripts/gpu/*.sh "$root/python/torch_baseline.py" "$root/python/torch_task.py" "$stage/"
cp -R "$root/tasks" "$stage/"

status=0
while IFS= read -r -d '' program; do
  dynamic=$(readelf -d "$program")
  needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
  foreign=$(grep -vE "$allowed" <<<"$needed" || true)
  glibc=$(readelf --dyn-syms -W "$program" | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
  printf '%10d bytes  %-28s %s; needs %s\n' "$(stat -c %s "$program")" "${program#"$stage/"}" "$glibc" "$(tr '\n' ' ' <<<"$needed")"
  if grep -qE '^lib(nvrtc|cublas)' <<<"$needed" && ! grep -q 'R.*PATH.*/usr/local/cuda/lib64' <<<"$dynamic"; then
    printf 'stage: %s would not look for the CUDA libraries in /usr/local/cuda/lib64\n' "${program##*/}" >&2
    status=1
  fi
  if [[ -n $foreign ]]; then
    printf 'stage: %s needs what a GPU host may lack: %s\n' "${program##*/}" "$(tr '\n' ' ' <<<"$foreign")" >&2
    status=1
  fi
done < <(find "$stage" -type f -perm -u+x ! -name '*.sh' ! -name '*.py' -print0 | sort -z)

# A dictionary that reaches from one program to the next: they share most of their code.
tar -C "$stage" -cf - . | xz --lzma2=preset=3,dict=128MiB >"$root/stage.tar.xz"
total=$(stat -c %s "$root/stage.tar.xz")
printf '%10d bytes  packed (limit %d)\n' "$total" "$size_limit"
if ((total > size_limit)); then
  echo 'stage: too large' >&2
  status=1
fi
exit "$status"

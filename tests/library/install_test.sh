#!/usr/bin/env bash
# Installs the build into a scratch folder and builds the examples against what was installed: by pkg-config and by
# CMake, shared and static. Runs them; without a GPU each must say so in one line and exit with 3.
#   install_test.sh BUILD_DIR SOURCE_DIR CMAKE CXX CUDA_INCLUDE CUDA_LIB
set -euo pipefail

readonly build=$1 source=$2 cmake=$3 cxx=$4 cuda_include=$5 cuda_lib=$6
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
prefix=$scratch/prefix

fail() {
  printf 'install_test: %s\n' "$*" >&2
  exit 1
}

for component in runtime development; do
  "$cmake" --install "$build" --prefix "$prefix" --component "$component" >"$scratch/install.log" || {
    cat "$scratch/install.log" >&2
    fail "installing $component"
  }
done
# A moved installation works as well.
mv "$prefix" "$scratch/moved"
prefix=$scratch/moved
library=$(find "$prefix" -name libwarpsmith.so)
archive=$(find "$prefix" -name libwarpsmith.a)
libdir=$(dirname "$library")
[[ -x $prefix/bin/warpsmith-nvrtc ]] || fail 'no compiler beside the library'
for file in "$source"/models/*.safetensors "$source"/wisdom/*.jsonl; do
  installed=$prefix/share/warpsmith/$(basename "$(dirname "$file")")/$(basename "$file")
  [[ -r $installed ]] || fail "no $installed"
done
# The program finds its model there: what it says of one that is damaged names the file.
for model in "$prefix"/share/warpsmith/models/*.safetensors; do printf 'damaged' >"$model"; done
said=$(WARPSMITH_DATA=$scratch/data WARPSMITH_CACHE=$scratch/cache "$prefix/bin/warpsmith" optimize 64 64 64 --target cpu \
  --policy model --budget 1s 2>&1) && fail 'a damaged model was used'
grep -qE "$prefix/share/warpsmith/models/cpu-avx(2|512).safetensors" <<<"$said" || fail "the model is not looked for where it is: $said"

# Nothing but the interface is visible, in either form.
foreign=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | grep -v '^warpsmith_[a-z_]*@@WARPSMITH_0$' || true)
[[ -z $foreign ]] || fail "libwarpsmith.so shows $foreign"
foreign=$(nm -g --defined-only "$archive" | awk 'NF == 3 {print $3}' | grep -v '^warpsmith_[a-z_]*$' || true)
[[ -z $foreign ]] || fail "libwarpsmith.a shows $(head -n 3 <<<"$foreign" | tr '\n' ' ')..."
for symbol in $(grep -oE '\bwarpsmith_[a-z_]+\(' "$source/include/warpsmith/hgemm.h" | tr -d '(' | sort -u); do
  nm -D --defined-only "$library" | grep -q " $symbol@" || fail "libwarpsmith.so lacks $symbol"
done
readelf -d "$library" | grep -q 'SONAME.*\[libwarpsmith\.so\.[0-9]*\]' || fail 'no versioned soname'
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if grep -qE '^lib(cuda|cudart|cublas|cublasLt|nvrtc)\.' <<<"$needed"; then
  fail "libwarpsmith.so does not load without: $needed"
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
read -r -a flags <<<"$(pkg-config --cflags --libs warpsmith) -I$cuda_include -L$cuda_lib -lcudart -Wl,-rpath,$libdir:$cuda_lib"
"$cxx" -x c -std=c11 -Wall -Wextra -Werror "$source/examples/library/gemm.c" "${flags[@]}" -o "$scratch/gemm"
"$cxx" -std=c++17 -Wall -Wextra -Werror "$source/examples/library/plan.cpp" "${flags[@]}" -o "$scratch/plan"
"$cmake" -S "$source/examples/library/cmake" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCUDAToolkit_ROOT="$(dirname "$cuda_include")" >"$scratch/configure.log" || {
  cat "$scratch/configure.log" >&2
  fail 'find_package(warpsmith)'
}
"$cmake" --build "$scratch/consumer" >"$scratch/build.log" || {
  cat "$scratch/build.log" >&2
  fail 'building a consumer'
}

for example in "$scratch/gemm" "$scratch/plan" "$scratch/consumer/attention_scores" "$scratch/consumer/attention_scores_static"; do
  status=0
  said=$("$example" 2>&1) || status=$?
  printf '%s: exit %d: %s\n' "$(basename "$example")" "$status" "$(head -n 1 <<<"$said")"
  case $status in
    0) ;;
    3) grep -q 'no CUDA driver or no usable GPU' <<<"$said" || fail "$example failed" ;;
    *) fail "$example failed" ;;
  esac
done

#!/usr/bin/env bash
# Builds warpsmith-torch.so against the PyTorch of this host's python3, beside the staged program, so that `warpsmith train`
# can compute gradients here, on the GPU with "device": "cuda". Needs g++ and PyTorch 1.13 to 2.11.
#   scripts/gpu/torch_module.sh [DIRECTORY]      DIRECTORY: where the program lies; default: stage/
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
program=${1:-$root/stage}
if ! torch=$(python3 -c 'import torch; print(torch.__path__[0])' 2>/dev/null); then
  echo 'torch_module: python3 has no PyTorch here' >&2
  exit 3
fi
abi=$(python3 -c 'import torch; print(int(torch.compiled_with_cxx11_abi()))')
device=()  # the libraries of the GPU, where this PyTorch has them
if [[ -e $torch/lib/libtorch_cuda.so ]]; then device=(-ltorch_cuda -lc10_cuda); fi
# PyTorch's C++ runtime, whatever the compiler would link: python/cxx_runtime.py says why.
mapfile -t runtime < <(python3 "$root/python/cxx_runtime.py")
"${CXX:-g++}" -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -D_GLIBCXX_USE_CXX11_ABI="$abi" \
  -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" \
  "$root/src/train/torch/torch_module.cpp" -o "$program/warpsmith-torch.so" \
  -L"$torch/lib" -Wl,-rpath,"$torch/lib" -Wl,--no-as-needed -ltorch "${device[@]}" -Wl,--as-needed -ltorch_cpu -lc10 "${runtime[@]}"
echo "$program/warpsmith-torch.so: PyTorch $(python3 -c 'import torch; print(torch.__version__)'), CUDA $(python3 -c 'import torch; print(torch.cuda.is_available())')"

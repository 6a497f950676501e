// Host side of exported kernels: tensor maps, encoded by the driver's function that the runtime finds, so that nothing
// has to be linked against libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

namespace warpsmith::standalone {

// A matrix as stored, row-major, and the box that one copy moves; columns come first. Sizes in elements of 16 bits.
struct MapForm {
  CUtensorMapDataType type;
  cuuint64_t columns, rows;
  cuuint64_t ld;  // elements from row to row
  cuuint32_t box_columns, box_rows;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
};

static inline cudaError_t encode_map(CUtensorMap* map, const void* base, const MapForm& form) {
  using Encoder = decltype(&cuTensorMapEncodeTiled);
  static const Encoder encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Encoder>(function) : nullptr;
  }();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t dims[2] = {form.columns, form.rows}, strides[1] = {form.ld * 2};
  const cuuint32_t box[2] = {form.box_columns, form.box_rows}, steps[2] = {1, 1};
  const CUresult result =
      encode(map, form.type, 2, const_cast<void*>(base), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             form.swizzle, form.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// A map holds an address and sizes alone: one made for the same address stays good.
struct CachedMap {
  const void* base = nullptr;
  CUtensorMap map{};

  cudaError_t update(const void* wanted, const MapForm& form) {
    if (wanted == base) return cudaSuccess;
    base = nullptr;
    const cudaError_t status = encode_map(&map, wanted, form);
    if (status == cudaSuccess) base = wanted;
    return status;
  }
};

}  // namespace warpsmith::standalone

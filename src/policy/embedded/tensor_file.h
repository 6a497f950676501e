// safetensors files: an 8-byte header length, a JSON header, then the tensors' bytes, little-endian. Reads F32 and F16,
// writes either.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace warpsmith::embedded {

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> tensors;
};

enum class TensorFormat { f32, f16 };

// Error: bad_input for a file that is not whole and well-formed; environment when it cannot be read.
Result<TensorFile> load_tensors(const std::filesystem::path& path);
// Atomically: a reader sees the old file or the new one. Error: environment.
Status save_tensors(const std::filesystem::path& path, const TensorFile& file, TensorFormat format = TensorFormat::f32);

}  // namespace warpsmith::embedded

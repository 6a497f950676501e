// Sets of shapes: the papers' grid, and files of shapes.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "problem/problem.h"

namespace warpsmith {

// "cuda-l2": all 1,000 shapes with M, N, K in {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384}, K fastest.
// Error (bad_input): unknown name.
Result<std::vector<Shape>> named_grid(std::string_view name);

// One shape a line in any form of parse_shape; blank lines and what follows '#' are ignored. Error: bad_input with file
// and line, environment when the file cannot be read.
Result<std::vector<Shape>> load_shapes(const std::filesystem::path& path);

}  // namespace warpsmith

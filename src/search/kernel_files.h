// A kernel's source and launch descriptor as two files that `bench --candidate` takes.
#pragma once

#include <filesystem>
#include <string>

#include "archive/archive.h"
#include "base/result.h"
#include "codegen/generate.h"
#include "recipe/recipe.h"

namespace warpsmith {

// "1024x1024x1024-nn-f16-f32-sm90"
std::string kernel_file_stem(const Archive::Scope& scope);

// The source's path, .cu or .cpp; its descriptor lies beside it (.json).
Result<std::filesystem::path> write_kernel(const std::filesystem::path& directory, const Archive::Scope& scope,
                                           const Recipe& recipe, const Candidate& candidate);

// The same of a candidate by its name in the archive (named_candidate.h); of a free form, its two texts as they are.
Result<std::filesystem::path> write_kernel(const std::filesystem::path& directory, const Archive::Scope& scope,
                                           const std::string& name, const Candidate& candidate, Archive* archive);

}  // namespace warpsmith

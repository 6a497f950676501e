// Small sources for the compile tests.
#pragma once

#include <string>

#include "codegen/generate.h"

namespace warpsmith {

inline Candidate cpp_candidate(std::string source) {
  Candidate candidate;
  candidate.language = Language::cpp;
  candidate.source = std::move(source);
  candidate.arch = "x86-64-v3";
  return candidate;
}

inline Candidate cuda_candidate(std::string source, std::string arch = "sm_90a") {
  Candidate candidate;
  candidate.language = Language::cuda;
  candidate.source = std::move(source);
  candidate.arch = std::move(arch);
  return candidate;
}

// Instantiates templates without end in sight: time or memory stops the compiler.
inline const char* kTemplateBomb =
    "template <int depth, class... T> struct Bomb {\n"
    "  static constexpr long value = Bomb<depth - 1, T..., char>::value + Bomb<depth - 1, T..., int>::value;\n"
    "};\n"
    "template <class... T> struct Bomb<0, T...> { static constexpr long value = sizeof...(T); };\n"
    "extern \"C\" long entry() { return Bomb<40>::value; }\n";

}  // namespace warpsmith

// What a shared object says of itself: libraries it needs, symbols it takes and gives. Read by our own parser with
// every offset checked, so that looking at a file runs none of it and trusts none of it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warpsmith::audit {

struct ElfFacts {
  std::vector<std::string> needed;     // DT_NEEDED, in order
  std::vector<std::string> undefined;  // dynamic symbols that it takes from others, sorted, without versions
  std::vector<std::string> defined;    // dynamic symbols that it gives, sorted

  bool needs(std::string_view library_prefix) const;
  bool takes(std::string_view symbol) const;
  bool gives(std::string_view symbol) const;
  // The CUDA runtime inside it: its references to threads, sockets and clocks cannot be told from the kernel's own.
  bool runtime_is_static() const { return !needs("libcudart.so"); }
};

// Error (bad_input): not a 64-bit ELF shared object of this machine, or a malformed one.
Result<ElfFacts> inspect_elf(std::string_view bytes);
Result<ElfFacts> inspect_elf_file(const std::filesystem::path& path);

}  // namespace warpsmith::audit

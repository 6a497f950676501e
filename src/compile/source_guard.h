// Refuses sources that would make a compiler read files: a compiler quotes what it reads in its log, so an include is a
// way to read any file of the user's.
#pragma once

#include <string_view>

#include "base/result.h"

namespace warpsmith {

enum class Includes {
  none,    // CUDA: a candidate needs no header
  named,   // CUDA, where the user has named directories of headers: <name> below these
  system,  // C++: <name> of the compiler's own search path only
};

// Error (failed): the source holds #include (but for `allowed`), #import, import, #embed, __has_include, __has_embed,
// .incbin or a pragma that names a file, outside comments; or text that compilers split into lines or tokens in
// different ways. C++ holds no assembly text, no ## and no _Pragma either. Names the line.
Status check_self_contained(std::string_view source, Includes allowed);

}  // namespace warpsmith

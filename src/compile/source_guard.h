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
// .incbin, #line or # N (but for one `#line 1 "name"`, which the tool puts before it), another directive that writes
// into the assembly, or a pragma that names a file, outside comments; or text that compilers split into lines or tokens
// in different ways. C++ holds no assembly text, no attributes that name sections or symbols, no ## and no _Pragma
// either; macros of system headers can still make such text, so the compiler is confined as well. Names the line.
Status check_self_contained(std::string_view source, Includes allowed);

}  // namespace warpsmith

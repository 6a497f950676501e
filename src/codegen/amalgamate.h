// One self-contained source file out of building blocks: what is compiled is what a reader can open and export.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith {

// Replaces every `#include "path"` that names an embedded source by its text, once each and in order, and drops
// `#pragma once`. System includes stay. Error (failed): an unknown path.
Result<std::string> amalgamate(std::string_view source);

}  // namespace warpsmith

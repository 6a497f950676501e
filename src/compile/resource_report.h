// ptxas's report as figures.
#pragma once

#include <string>

#include "compile/compile.h"

namespace warpsmith {

// `log` is NVRTC's log of a compile with --ptxas-options=-v. Lines that are missing leave their figure at -1.
ResourceReport parse_ptxas_log(const std::string& log);

}  // namespace warpsmith

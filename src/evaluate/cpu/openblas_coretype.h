// Which OPENBLAS_CORETYPE is fastest on this CPU: measured in short-lived child processes, since OpenBLAS reads it
// once, when it is loaded. Kept under cache_dir(), by CPU model and library.
#pragma once

#include <optional>
#include <string>

namespace warpsmith {

// The fastest setting; nullopt: the library's own choice (variable unset). Runs this executable with kProbeFlag.
std::optional<std::string> fastest_openblas_coretype();

inline constexpr const char* kProbeFlag = "--probe-openblas";
inline constexpr const char* kIdentifyFlag = "--identify-openblas";

// The child's side; both return its exit code. Probe: prints microseconds, the geometric mean over a few sizes.
int probe_openblas();
int identify_openblas();

}  // namespace warpsmith

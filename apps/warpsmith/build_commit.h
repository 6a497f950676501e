// Which commit this program was built from.
#pragma once

namespace warpsmith::cli {

// "9c13db2a0f10", with "-dirty" after it when tracked files differed; "unknown" for a build outside a checkout.
extern const char* const kBuildCommit;

}  // namespace warpsmith::cli

// Numbers that several tests use. The expected values beside them come from SciPy 1.17.1; the call stands in a comment.
#pragma once

#include <vector>

namespace warpsmith {

inline const std::vector<double> kRatios = {1.31, 0.97, 1.08, 1.22, 1.05, 0.99, 1.17, 1.02, 1.44, 1.11, 0.93, 1.26};
inline const std::vector<double> kOthers = {1.12, 0.95, 1.10, 1.05, 1.01, 1.03, 1.09, 0.98, 1.20, 1.07, 0.96, 1.15};

}  // namespace warpsmith

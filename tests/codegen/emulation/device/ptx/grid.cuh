// Programmatic dependent launch means nothing here: one grid runs at a time.
#pragma once

namespace warpsmith::device {

inline void grid_dependency_wait() {}
inline void grid_launch_dependents() {}

}  // namespace warpsmith::device

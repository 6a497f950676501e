// Text of the building blocks under src/device and src/cpu, by path relative to src/ ("device/ptx/mbarrier.cuh").
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace warpsmith {

const std::map<std::string, std::string_view>& embedded_sources();

}  // namespace warpsmith

// How catalogue entries are named and printed as GoogleTest cases.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "catalogue.h"

namespace warpsmith::attacks {

inline void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }
inline void PrintTo(const Honest& honest, std::ostream* out) { *out << honest.name; }

struct CaseName {
  std::string operator()(const testing::TestParamInfo<Attack>& entry) const { return entry.param.name; }
  std::string operator()(const testing::TestParamInfo<Honest>& entry) const { return entry.param.name; }
  std::string operator()(const testing::TestParamInfo<std::string>& entry) const { return entry.param; }
};

}  // namespace warpsmith::attacks

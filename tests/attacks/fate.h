// What became of an attack here.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace warpsmith::attacks {

struct Fate {
  std::vector<std::string> stopped_by;  // what stopped it, by the catalogue's names; empty: nothing did
  std::string how;                      // in words, with numbers

  bool caught() const { return !stopped_by.empty(); }
  // At least one of the expected.
  bool caught_by(const std::vector<std::string>& expected) const {
    return std::any_of(stopped_by.begin(), stopped_by.end(), [&](const std::string& name) {
      return std::find(expected.begin(), expected.end(), name) != expected.end();
    });
  }
};

}  // namespace warpsmith::attacks

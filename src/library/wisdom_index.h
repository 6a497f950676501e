// Wisdom as the library reads it: the problems of a file at once, an entry's other fields only when it is asked for. A
// file of the whole grid is ready in a few milliseconds.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "problem/problem.h"
#include "wisdom/wisdom.h"

namespace warpsmith::library {

class WisdomIndex {
 public:
  // Error: as Wisdom::load; a line that does not even name a problem refuses the file. `on_damage` hears, once, of an
  // entry that turns out to be damaged when it is needed.
  static Result<WisdomIndex> load(const std::filesystem::path& path,
                                  std::function<void(const std::string&)> on_damage = {});
  explicit WisdomIndex(const Wisdom& wisdom);

  const WisdomHeader& header() const { return header_; }
  std::size_t size() const { return items_.size(); }
  const Problem& problem(std::size_t index) const { return items_[index].problem; }
  // Nothing when its line is damaged.
  std::optional<WisdomEntry> entry(std::size_t index) const;

 private:
  struct Item {
    Problem problem;
    std::size_t line_number = 0;  // 0: not from a file
    std::string line;
  };

  explicit WisdomIndex(WisdomHeader header) : header_(std::move(header)) {}

  WisdomHeader header_;
  std::vector<Item> items_;
  std::filesystem::path path_;
  std::function<void(const std::string&)> on_damage_;
  std::shared_ptr<std::atomic<bool>> reported_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace warpsmith::library

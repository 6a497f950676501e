// The rows of a run over a grid: one JSON object a line, written as each shape is done, so that a run that was cut
// short goes on where it stopped. Shards of one run write files of one folder and know each other's rows.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "problem/problem.h"

namespace warpsmith::library::testing {

struct GridRow {
  Shape shape{};
  double ratio = 0;  // cuBLASLt's time over the library's; 0: one of them was not timed
  double us = 0;     // the library's
  bool own = false, right = false;
};

// Whether the library was fast enough; a row that was not timed is not, whatever the limit.
inline bool passes(const GridRow& row, double limit) { return row.ratio > 0 && row.ratio >= limit; }

inline std::string shape_name(const Shape& shape) {
  return std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
}

class GridRows {
 public:
  // Reads library_grid*.jsonl beside `file` (empty: nothing is read or written); lines that are cut off are no rows.
  explicit GridRows(const std::filesystem::path& file) {
    if (file.empty()) return;
    for (const auto& each : std::filesystem::directory_iterator(std::filesystem::absolute(file).parent_path())) {
      if (each.path().filename().string().rfind("library_grid", 0) == 0 && each.path().extension() == ".jsonl") {
        read(each.path());
      }
    }
    out_.open(file, std::ios::app);
    if (!out_) throw std::runtime_error("cannot write " + file.string());
    out_ << "\n";  // behind a line that was cut off
  }

  const GridRow* find(const Shape& shape) const {
    const auto found = rows_.find(shape_name(shape));
    return found == rows_.end() ? nullptr : &found->second;
  }
  void add(const GridRow& row) {
    rows_[shape_name(row.shape)] = row;
    if (!out_.is_open()) return;
    out_ << nlohmann::json{{"m", row.shape.m}, {"n", row.shape.n}, {"k", row.shape.k},  {"ratio", row.ratio},
                           {"us", row.us},     {"own", row.own},   {"right", row.right}}
                .dump()
         << "\n"
         << std::flush;
  }

 private:
  void read(const std::filesystem::path& file) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object()) continue;
      GridRow row;
      row.shape = {json.value("m", std::int64_t{0}), json.value("n", std::int64_t{0}),
                   json.value("k", std::int64_t{0})};
      row.ratio = json.value("ratio", 0.0);
      row.us = json.value("us", 0.0);
      row.own = json.value("own", false);
      row.right = json.value("right", false);
      rows_[shape_name(row.shape)] = row;
    }
  }

  std::map<std::string, GridRow> rows_;
  std::ofstream out_;
};

// The shapes of a shard, in an order of which every beginning is a sample of the whole: every step-th of `shapes`, of
// those every shards-th beginning with the shard-th.
inline std::vector<Shape> shard_of(const std::vector<Shape>& shapes, std::size_t step, std::size_t shard,
                                   std::size_t shards) {
  std::vector<Shape> taken;
  for (std::size_t i = 0; i < shapes.size(); i += step) taken.push_back(shapes[i]);
  std::size_t stride = 97;
  while (std::gcd(stride, taken.size()) != 1) ++stride;
  std::vector<Shape> mine;
  for (std::size_t i = shard; i < taken.size(); i += shards) mine.push_back(taken[i * stride % taken.size()]);
  return mine;
}

}  // namespace warpsmith::library::testing

// Shape sets.
#include "problem/grids.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/file.h"
#include "base/text.h"

namespace warpsmith {

Result<std::vector<Shape>> named_grid(std::string_view name) {
  if (name != "cuda-l2") return bad_input(fmt::format("unknown grid '{}'; accepted: cuda-l2", printable(name)));
  constexpr std::array<std::int64_t, 10> kSizes{64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384};
  std::vector<Shape> shapes;
  for (const std::int64_t m : kSizes) {
    for (const std::int64_t n : kSizes) {
      for (const std::int64_t k : kSizes) shapes.push_back({m, n, k});
    }
  }
  return shapes;
}

Result<std::vector<Shape>> load_shapes(const std::filesystem::path& path) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::vector<Shape> shapes;
  int line_number = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    at = end + 1;
    ++line_number;
    const std::string content = line.substr(0, line.find('#'));
    if (content.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto shape = parse_shape(content.substr(0, content.find_last_not_of(" \t\r") + 1));
    if (!shape) return bad_input(fmt::format("{}:{}: {}", path.string(), line_number, shape.error().message));
    shapes.push_back(*shape);
  }
  if (shapes.empty()) return bad_input(fmt::format("{} holds no shape", path.string()));
  return shapes;
}

}  // namespace warpsmith

// Sorts the columns of each row by value, then by number.
#include <algorithm>
#include <numeric>
#include <vector>

extern "C" void reference(const Arguments& t) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(t.columns));
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const double* x = t.x + row * t.columns;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return x[a] > x[b]; });
    for (std::int64_t i = 0; i < t.k; ++i) {
      t.values[row * t.k + i] = x[order[static_cast<std::size_t>(i)]];
      t.indices[row * t.k + i] = static_cast<double>(order[static_cast<std::size_t>(i)]);
    }
  }
}

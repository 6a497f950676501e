// A row at a time, in pieces of BLOCK columns.
extern "C" void chain(const Arguments& t) {
  const auto alpha = static_cast<float>(t.alpha), limit = static_cast<float>(t.limit);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const std::int64_t start = row * t.columns;
    for (std::int64_t first = 0; first < t.columns; first += BLOCK) {
      const std::int64_t last = first + BLOCK < t.columns ? first + BLOCK : t.columns;
      for (std::int64_t i = first; i < last; ++i) {
        float value = alpha * (static_cast<float>(t.x[start + i]) + static_cast<float>(t.bias[i]));
        value = value > 0 ? value : 0;
        value = value < limit ? value : limit;
        t.y[start + i] = static_cast<f16>(value + static_cast<float>(t.residual[start + i]));
      }
    }
  }
}

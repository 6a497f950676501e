// UNROLL independent sums of each row.
extern "C" void row_sum(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    float sums[UNROLL] = {};
    std::int64_t i = 0;
    for (; i + UNROLL <= t.columns; i += UNROLL) {
      for (int j = 0; j < UNROLL; ++j) sums[j] += static_cast<float>(x[i + j]);
    }
    float sum = 0;
    for (; i < t.columns; ++i) sum += static_cast<float>(x[i]);
    for (const float part : sums) sum += part;
    t.y[row] = static_cast<float>(t.scale) * sum;
  }
}

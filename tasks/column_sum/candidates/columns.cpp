// A row at a time onto the sums of all columns, in runs of RUN rows: sums of sums lose less.
extern "C" void column_sum(const Arguments& t) {
  float* run = static_cast<float*>(t.workspace);
  for (std::int64_t i = 0; i < t.columns; ++i) t.y[i] = 0;
  for (std::int64_t first = 0; first < t.rows; first += RUN) {
    const std::int64_t last = first + RUN < t.rows ? first + RUN : t.rows;
    for (std::int64_t i = 0; i < t.columns; ++i) run[i] = 0;
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t i = 0; i < t.columns; ++i) run[i] += static_cast<float>(t.x[row * t.columns + i]);
    }
    for (std::int64_t i = 0; i < t.columns; ++i) t.y[i] += run[i];
  }
  for (std::int64_t i = 0; i < t.columns; ++i) t.y[i] *= static_cast<float>(t.scale);
}

// BLOCK x BLOCK at a time, so that the lines that are written stay in the first cache.
extern "C" void transpose(const Arguments& t) {
  for (std::int64_t i0 = 0; i0 < t.rows; i0 += BLOCK) {
    for (std::int64_t j0 = 0; j0 < t.columns; j0 += BLOCK) {
      const std::int64_t i1 = i0 + BLOCK < t.rows ? i0 + BLOCK : t.rows;
      const std::int64_t j1 = j0 + BLOCK < t.columns ? j0 + BLOCK : t.columns;
      for (std::int64_t j = j0; j < j1; ++j) {
        for (std::int64_t i = i0; i < i1; ++i) t.y[j * t.rows + i] = t.x[i * t.columns + j];
      }
    }
  }
}

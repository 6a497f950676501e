// A dot product a row with UNROLL independent sums; x is widened once a batch.
extern "C" void batched_gemv(const Arguments& t) {
  float* x = static_cast<float*>(t.workspace);
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t i = 0; i < t.columns; ++i) x[i] = static_cast<float>(t.x[b * t.columns + i]);
    for (std::int64_t row = 0; row < t.rows; ++row) {
      const f16* a = t.a + (b * t.rows + row) * t.columns;
      float sums[UNROLL] = {};
      std::int64_t i = 0;
      for (; i + UNROLL <= t.columns; i += UNROLL) {
        for (int j = 0; j < UNROLL; ++j) sums[j] += static_cast<float>(a[i + j]) * x[i + j];
      }
      float sum = 0;
      for (; i < t.columns; ++i) sum += static_cast<float>(a[i]) * x[i];
      for (const float part : sums) sum += part;
      t.y[b * t.rows + row] = static_cast<f16>(static_cast<float>(t.alpha) * sum);
    }
  }
}

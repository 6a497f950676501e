// A list of the k best, kept in order; most elements are smaller than its last.
extern "C" void top_k(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const f16* x = t.x + row * t.columns;
    f16* values = t.values + row * t.k;
    std::int32_t* indices = t.indices + row * t.k;
    float* best = static_cast<float*>(t.workspace);
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < t.columns; ++i) {
      const auto value = static_cast<float>(x[i]);
      if (count == t.k && !(value > best[count - 1])) continue;
      std::int64_t at = count < t.k ? count++ : count - 1;
      for (; at > 0 && value > best[at - 1]; --at) {
        best[at] = best[at - 1];
        indices[at] = indices[at - 1];
      }
      best[at] = value;
      indices[at] = static_cast<std::int32_t>(i);
    }
    for (std::int64_t i = 0; i < t.k; ++i) values[i] = static_cast<f16>(best[i]);
  }
}

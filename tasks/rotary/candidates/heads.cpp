// BLOCK pairs of a head at a time.
extern "C" void rotary(const Arguments& t) {
  const std::int64_t half = t.size / 2;
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    const float* cosines = t.cos + token * half;
    const float* sines = t.sin + token * half;
    for (std::int64_t head = 0; head < t.heads; ++head) {
      const f16* x = t.x + (token * t.heads + head) * t.size;
      f16* y = t.y + (token * t.heads + head) * t.size;
      for (std::int64_t first = 0; first < half; first += BLOCK) {
        const std::int64_t last = first + BLOCK < half ? first + BLOCK : half;
        for (std::int64_t i = first; i < last; ++i) {
          const auto a = static_cast<float>(x[i]), b = static_cast<float>(x[i + half]);
          y[i] = static_cast<f16>(a * cosines[i] - b * sines[i]);
          y[i + half] = static_cast<f16>(b * cosines[i] + a * sines[i]);
        }
      }
    }
  }
}

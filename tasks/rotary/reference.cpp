// Turns pairs of coordinates; errors scale with the products that are added.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  const std::int64_t half = t.size / 2;
  for (std::int64_t token = 0; token < t.tokens; ++token) {
    for (std::int64_t head = 0; head < t.heads; ++head) {
      const std::int64_t row = (token * t.heads + head) * t.size;
      for (std::int64_t i = 0; i < half; ++i) {
        const double a = t.x[row + i], b = t.x[row + i + half];
        const double c = t.cos[token * half + i], s = t.sin[token * half + i];
        t.y[row + i] = a * c - b * s;
        t.y[row + i + half] = b * c + a * s;
        t.y_scale[row + i] = std::fabs(a * c) + std::fabs(b * s);
        t.y_scale[row + i + half] = std::fabs(b * c) + std::fabs(a * s);
      }
    }
  }
}

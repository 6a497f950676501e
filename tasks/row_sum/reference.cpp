// y = scale * sum of each row; errors scale with the sum of magnitudes.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    double sum = 0, magnitudes = 0;
    for (std::int64_t i = 0; i < t.columns; ++i) {
      sum += t.x[row * t.columns + i];
      magnitudes += std::fabs(t.x[row * t.columns + i]);
    }
    t.y[row] = t.scale * sum;
    t.y_scale[row] = std::fabs(t.scale) * magnitudes;
  }
}

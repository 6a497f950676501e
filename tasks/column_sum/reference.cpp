// y = scale * sum of each column; errors scale with the sum of magnitudes.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t column = 0; column < t.columns; ++column) {
    double sum = 0, magnitudes = 0;
    for (std::int64_t i = 0; i < t.rows; ++i) {
      sum += t.x[i * t.columns + column];
      magnitudes += std::fabs(t.x[i * t.columns + column]);
    }
    t.y[column] = t.scale * sum;
    t.y_scale[column] = std::fabs(t.scale) * magnitudes;
  }
}

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias along each row. Errors scale with the terms that are added.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  const double count = static_cast<double>(t.columns);
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const double* x = t.x + row * t.columns;
    double sum = 0, magnitudes = 0, squares = 0;
    for (std::int64_t i = 0; i < t.columns; ++i) {
      sum += x[i];
      magnitudes += std::fabs(x[i]);
    }
    const double mean = sum / count;
    for (std::int64_t i = 0; i < t.columns; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double factor = 1 / std::sqrt(squares / count + t.epsilon);
    for (std::int64_t i = 0; i < t.columns; ++i) {
      const std::int64_t at = row * t.columns + i;
      t.y[at] = (x[i] - mean) * factor * t.weight[i] + t.bias[i];
      const double size = (std::fabs(x[i]) + magnitudes / count) * factor;
      t.y_scale[at] = size * std::fabs(t.weight[i]) + std::fabs(t.bias[i]);
    }
  }
}

// y = x / sqrt(mean(x^2) + epsilon) * weight along each row.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const double* x = t.x + row * t.columns;
    double sum = 0;
    for (std::int64_t i = 0; i < t.columns; ++i) sum += x[i] * x[i];
    const double factor = 1 / std::sqrt(sum / static_cast<double>(t.columns) + t.epsilon);
    for (std::int64_t i = 0; i < t.columns; ++i) t.y[row * t.columns + i] = x[i] * factor * t.weight[i];
  }
}

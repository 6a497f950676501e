// y = softmax(scale * x) along each row.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const double* x = t.x + row * t.columns;
    double* y = t.y + row * t.columns;
    double largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < t.columns; ++i) largest = std::fmax(largest, t.scale * x[i]);
    for (std::int64_t i = 0; i < t.columns; ++i) sum += std::exp(t.scale * x[i] - largest);
    for (std::int64_t i = 0; i < t.columns; ++i) y[i] = std::exp(t.scale * x[i] - largest) / sum;
  }
}

// y = min(max(alpha * (x + bias), 0), limit) + residual.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.rows * t.columns; ++i) {
    const double bias = t.bias[i % t.columns];
    t.y[i] = std::fmin(std::fmax(t.alpha * (t.x[i] + bias), 0), t.limit) + t.residual[i];
    t.y_scale[i] = std::fabs(t.alpha) * (std::fabs(t.x[i]) + std::fabs(bias)) + std::fabs(t.residual[i]);
  }
}

// y = gate * sigmoid(beta * gate) * up.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const double* gate = t.x + row * 2 * t.columns;
    const double* up = gate + t.columns;
    for (std::int64_t i = 0; i < t.columns; ++i) {
      t.y[row * t.columns + i] = gate[i] / (1 + std::exp(-t.beta * gate[i])) * up[i];
    }
  }
}

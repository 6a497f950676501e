// y = gelu(x + bias).
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.rows * t.columns; ++i) {
    const double z = t.x[i] + t.bias[i % t.columns];
    const double inside =
        t.tanh != 0 ? std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)) : std::erf(z / std::sqrt(2.0));
    t.y[i] = z / 2 * (1 + inside);
  }
}

// y[b] = alpha * A[b] x[b]; errors scale with the sum of |a||x|.
#include <cmath>

extern "C" void reference(const Arguments& t) {
  for (std::int64_t b = 0; b < t.batch; ++b) {
    for (std::int64_t row = 0; row < t.rows; ++row) {
      const double* a = t.a + (b * t.rows + row) * t.columns;
      double sum = 0, magnitudes = 0;
      for (std::int64_t i = 0; i < t.columns; ++i) {
        sum += a[i] * t.x[b * t.columns + i];
        magnitudes += std::fabs(a[i] * t.x[b * t.columns + i]);
      }
      t.y[b * t.rows + row] = t.alpha * sum;
      t.y_scale[b * t.rows + row] = std::fabs(t.alpha) * magnitudes;
    }
  }
}

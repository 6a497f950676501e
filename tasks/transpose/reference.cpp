// y[j, i] = x[i, j].
extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) t.y[j * t.rows + i] = t.x[i * t.columns + j];
  }
}

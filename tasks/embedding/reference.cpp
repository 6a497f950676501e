// y[i] = table[tokens[i]].
extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.tokens_count; ++i) {
    const auto token = static_cast<std::int64_t>(t.tokens[i]);
    for (std::int64_t j = 0; j < t.columns; ++j) t.y[i * t.columns + j] = t.table[token * t.columns + j];
  }
}

// BLOCK elements at a time.
extern "C" void cast_scale(const Arguments& t) {
  const auto scale = static_cast<float>(t.scale);
  std::int64_t i = 0;
  for (; i + BLOCK <= t.count; i += BLOCK) {
    for (int j = 0; j < BLOCK; ++j) t.y[i + j] = static_cast<f16>(scale * t.x[i + j]);
  }
  for (; i < t.count; ++i) t.y[i] = static_cast<f16>(scale * t.x[i]);
}

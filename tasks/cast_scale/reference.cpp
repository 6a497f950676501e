// y = scale * x.
extern "C" void reference(const Arguments& t) {
  for (std::int64_t i = 0; i < t.count; ++i) t.y[i] = t.scale * t.x[i];
}

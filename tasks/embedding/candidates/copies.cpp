// A copy a row, the row AHEAD tokens later fetched meanwhile.
#include <cstring>

extern "C" void embedding(const Arguments& t) {
  for (std::int64_t i = 0; i < t.tokens_count; ++i) {
    if (AHEAD > 0 && i + AHEAD < t.tokens_count) __builtin_prefetch(t.table + t.tokens[i + AHEAD] * t.columns);
    std::memcpy(t.y + i * t.columns, t.table + t.tokens[i] * t.columns, static_cast<std::size_t>(t.columns) * 2);
  }
}

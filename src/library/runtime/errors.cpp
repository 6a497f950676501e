// Thread-local error text.
#include "library/runtime/errors.h"

#include <cstdio>

#include "library/call.h"

namespace warpsmith::library {

namespace {

constexpr std::size_t kLongestError = 512;

char* error_text() {
  thread_local char text[kLongestError] = "";
  return text;
}

}  // namespace

warpsmith_status_t fail(warpsmith_status_t status, const char* detail) {
  char* text = error_text();
  std::snprintf(text, kLongestError, "%s: %s", phrase_of(status), detail);
  for (char* at = text; *at != '\0'; ++at) {
    if (*at == '\n') *at = ' ';
  }
  return status;
}

const char* last_error() { return error_text(); }

void warn(const std::string& message) { std::fprintf(stderr, "warpsmith: %s\n", message.c_str()); }

}  // namespace warpsmith::library

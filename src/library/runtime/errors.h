// The calling thread's last error, in a buffer that never allocates.
#pragma once

#include <string>

#include "warpsmith/hgemm.h"

namespace warpsmith::library {

// Keeps "phrase: detail" for warpsmith_last_error() and returns the status.
warpsmith_status_t fail(warpsmith_status_t status, const char* detail);
inline warpsmith_status_t fail(warpsmith_status_t status, const std::string& detail) {
  return fail(status, detail.c_str());
}

const char* last_error();

// One line on stderr, for what the user should know and no call returns.
void warn(const std::string& message);

}  // namespace warpsmith::library

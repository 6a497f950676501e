// Foreign text inside one-line messages.
#pragma once

#include <string>
#include <string_view>

namespace warpsmith {

// The first `limit` bytes of `text` with '?' for every byte that is not printable ASCII, so that quoting a user's words
// can neither break the line nor make a terminal act on them.
inline std::string printable(std::string_view text, std::size_t limit = 40) {
  std::string shown(text.substr(0, limit));
  for (char& byte : shown) {
    if (byte < ' ' || byte > '~') byte = '?';
  }
  return shown;
}

}  // namespace warpsmith

// The server's token: the only secret. Only its hash is kept, so that nothing can print it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warpsmith::serve {

inline constexpr const char* kTokenVariable = "WARPSMITH_SERVE_TOKEN";

class Token {
 public:
  // Error (bad_input): fewer than 16 characters, or others than printable ASCII without blanks.
  static Result<Token> of(std::string_view text);
  // From a file (blanks around it do not count), else from the environment, from which it is removed so that no child
  // process has it; nullopt: neither is there. Error: bad_input for a file that others may read.
  static Result<std::optional<Token>> load(const std::filesystem::path& file);

  // An Authorization header: "Bearer TOKEN", or "Basic ..." with the token as password, which is what clients send that
  // know nothing but a URL (http://any:TOKEN@host/).
  bool admits(std::string_view authorization) const;

 private:
  explicit Token(std::string hash) : hash_(std::move(hash)) {}
  std::string hash_;
};

// nullopt: not base64 (RFC 4648).
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace warpsmith::serve

// Loading and comparing the token.
#include "serve/token.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/file.h"
#include "base/hash.h"

namespace warpsmith::serve {

namespace {

constexpr std::size_t kFewestCharacters = 16, kMostCharacters = 4096;

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() > word.size() && text[word.size()] == ' ' &&
         std::equal(word.begin(), word.end(), text.begin(), [](char a, char b) { return a == (b | 0x20); });
}

int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

}  // namespace

Result<Token> Token::of(std::string_view text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != ':'; });
  if (text.size() < kFewestCharacters || text.size() > kMostCharacters || !printable) {
    return bad_input(fmt::format("the token is not usable; accepted: {} to {} printable characters, no blanks, no ':'",
                                 kFewestCharacters, kMostCharacters));
  }
  return Token(sha256_hex(text));
}

Result<std::optional<Token>> Token::load(const std::filesystem::path& file) {
  std::optional<std::string> text;
  if (const char* variable = std::getenv(kTokenVariable); variable != nullptr) text = variable;
  unsetenv(kTokenVariable);
  if (!file.empty()) {
    struct stat facts {};
    if (stat(file.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0) {
      return bad_input(fmt::format("token file {} is open to other users; accepted: mode 600", file.string()));
    }
    const auto read = read_file(file);
    if (!read) return bad_input("--token-file: " + read.error().message);
    text = *read;
  }
  if (!text) return std::optional<Token>();
  auto token = Token::of(trim(*text));
  if (!token) {
    return bad_input(fmt::format("{}: {}", file.empty() ? kTokenVariable : file.string(), token.error().message));
  }
  return std::optional<Token>(std::move(*token));
}

bool Token::admits(std::string_view authorization) const {
  const auto rest = [&](std::size_t word) { return trim(authorization.substr(word)); };
  if (starts_with_word(authorization, "bearer")) return sha256_hex(rest(6)) == hash_;
  if (!starts_with_word(authorization, "basic")) return false;
  const auto pair = decode_base64(rest(5));
  if (!pair) return false;
  const std::size_t colon = pair->find(':');
  return colon != std::string::npos && sha256_hex(std::string_view(*pair).substr(colon + 1)) == hash_;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>((bits >> held) & 0xff));
    }
  }
  return bytes;
}

}  // namespace warpsmith::serve

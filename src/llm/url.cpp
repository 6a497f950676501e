// URLs of endpoints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "llm/http.h"

namespace warpsmith::llm {

bool Url::loopback() const { return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0; }

std::string Url::text() const {
  const bool usual = port == (tls ? 443 : 80);
  return fmt::format("{}://{}{}{}", tls ? "https" : "http", host, usual ? "" : fmt::format(":{}", port), path);
}

Result<Url> parse_url(std::string_view text) {
  // The text is not quoted beyond its host: what follows could be a secret.
  const auto refuse = [](std::string_view what) {
    return bad_input(fmt::format("{}; accepted: http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH]", what));
  };
  Url url;
  if (text.rfind("https://", 0) == 0) {
    url.tls = true;
  } else if (text.rfind("http://", 0) != 0) {
    return refuse(
        fmt::format("'{}' is not the URL of an endpoint", printable(text.substr(0, text.find_first_of("@?")))));
  }
  text.remove_prefix(url.tls ? 8 : 7);
  const auto odd = [](char byte) { return byte <= ' ' || byte > '~' || byte == '"' || byte == '\\'; };
  if (std::any_of(text.begin(), text.end(), odd)) return refuse("the URL holds characters that no URL has");
  if (text.find('@') != std::string_view::npos)
    return refuse("the URL holds credentials; keys come from the environment");
  if (text.find_first_of("?#") != std::string_view::npos) return refuse("the URL holds a query");
  const std::size_t slash = std::min(text.find('/'), text.size());
  std::string_view authority = text.substr(0, slash);
  url.path = slash < text.size() ? std::string(text.substr(slash)) : "/";
  url.port = url.tls ? 443 : 80;
  const std::size_t bracket = authority.rfind(']');
  const std::size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (error != std::errc() || end != digits.data() + digits.size() || url.port < 1 || url.port > 65535) {
      return refuse(fmt::format("port '{}' is not one of 1 to 65535", printable(digits)));
    }
    authority = authority.substr(0, colon);
  }
  url.host = authority;
  if (url.host.empty() || url.host == "[]") return refuse("the URL names no host");
  return url;
}

bool same_origin(std::string_view one, std::string_view other) {
  const auto a = parse_url(one), b = parse_url(other);
  return a && b && a->tls == b->tls && a->host == b->host && a->port == b->port;
}

}  // namespace warpsmith::llm

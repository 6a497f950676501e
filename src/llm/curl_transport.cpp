// HttpTransport over libcurl, opened with dlopen: programs that never talk to a model need no libcurl, and one binary
// serves every version of it.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/text.h"
#include "llm/http.h"

namespace warpsmith::llm {

namespace {

// libcurl's functions, by their published prototypes.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_version) version = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// What a transfer gathers, and why it was ended from here.
struct Transfer {
  const HttpRequest& request;
  const std::atomic<bool>& stop;
  HttpReply reply;
  bool too_large = false;
};

// May be called in pieces.
std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.reply.body.size() + size * count > transfer.request.max_reply_bytes) {
    transfer.too_large = true;
    return 0;
  }
  transfer.reply.body.append(bytes, size * count);
  return size * count;
}

// Each header line by itself; a status line begins the headers anew (after "100 Continue", say).
std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto& headers = static_cast<Transfer*>(user)->reply.headers;
  const std::string_view line(bytes, size * count);
  if (line.rfind("HTTP/", 0) == 0) headers.clear();
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || headers.size() >= 200) return size * count;
  std::string name(line.substr(0, colon));
  for (char& byte : name) byte = static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  const std::size_t first = line.find_first_not_of(" \t\r\n", colon + 1);
  const std::size_t last = line.find_last_not_of(" \t\r\n");
  headers[name] = first == std::string_view::npos ? std::string() : std::string(line.substr(first, last - first + 1));
  return size * count;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(user)->stop.load() ? 1 : 0;
}

HttpFailure::Kind kind_of(CURLcode code, const Transfer& transfer) {
  if (transfer.too_large) return HttpFailure::Kind::too_large;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return HttpFailure::Kind::cannot_connect;
    case CURLE_OPERATION_TIMEDOUT:
      return HttpFailure::Kind::timed_out;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFailure::Kind::tls;
    case CURLE_ABORTED_BY_CALLBACK:
      return HttpFailure::Kind::stopped;
    default:
      return HttpFailure::Kind::broken;
  }
}

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(const Curl& curl) : curl_(curl) {}

  std::string name() const override {
    const std::string version = curl_.version();
    return version.substr(0, version.find(' ', version.find(' ') + 1));
  }

  HttpOutcome post(const HttpRequest& request, const std::atomic<bool>& stop) const override {
    const auto url = parse_url(request.url);
    if (!url) return HttpFailure{HttpFailure::Kind::broken, url.error().message};
    const std::unique_ptr<CURL, decltype(curl_.easy_cleanup)> handle(curl_.easy_init(), curl_.easy_cleanup);
    if (!handle) throw EnvironmentError("libcurl gives no handle");
    curl_slist* list = nullptr;
    for (const auto& [name, value] : request.headers) list = curl_.slist_append(list, (name + ": " + value).c_str());
    const std::unique_ptr<curl_slist, decltype(curl_.slist_free_all)> headers(list, curl_.slist_free_all);
    Transfer transfer{request, stop, {}, false};
    std::array<char, CURL_ERROR_SIZE> words{};
    prepare(handle.get(), *url, request, headers.get(), transfer, words.data());
    const CURLcode code = curl_.perform(handle.get());
    long status = 0;
    curl_.getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
    transfer.reply.status = static_cast<int>(status);
    if (code == CURLE_OK) return std::move(transfer.reply);
    // What arrived before the connection broke is worth keeping.
    if (!transfer.too_large && status == 200 && (code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR)) {
      transfer.reply.complete = false;
      return std::move(transfer.reply);
    }
    HttpFailure failure{kind_of(code, transfer), {}};
    failure.message = failure.kind == HttpFailure::Kind::too_large
                          ? fmt::format("the reply exceeds {} bytes", request.max_reply_bytes)
                          : printable(words[0] != 0 ? words.data() : curl_.strerror(code), 300);
    curl_off_t uploaded = 0;
    curl_.getinfo(handle.get(), CURLINFO_SIZE_UPLOAD_T, &uploaded);
    failure.sent = uploaded >= static_cast<curl_off_t>(request.body.size()) && status < 300;
    failure.received_bytes = transfer.reply.body.size();
    return failure;
  }

 private:
  void prepare(CURL* handle, const Url& url, const HttpRequest& request, curl_slist* headers, Transfer& transfer,
               char* words) const {
    const auto milliseconds = [](double seconds) { return static_cast<long>(std::max(1.0, seconds * 1e3)); };
    curl_.setopt(handle, CURLOPT_URL, request.url.c_str());
    curl_.setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl_.setopt(handle, CURLOPT_POST, 1L);
    curl_.setopt(handle, CURLOPT_POSTFIELDS, request.body.data());
    curl_.setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_.setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_.setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_.setopt(handle, CURLOPT_ERRORBUFFER, words);
    curl_.setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_seconds));
    curl_.setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(request.total_seconds));
    curl_.setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_.setopt(handle, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.silence_seconds)));
    curl_.setopt(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_.setopt(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_.setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_.setopt(handle, CURLOPT_XFERINFOFUNCTION, &on_progress);
    curl_.setopt(handle, CURLOPT_XFERINFODATA, &transfer);
    curl_.setopt(handle, CURLOPT_WRITEFUNCTION, &on_body);
    curl_.setopt(handle, CURLOPT_WRITEDATA, &transfer);
    curl_.setopt(handle, CURLOPT_HEADERFUNCTION, &on_header);
    curl_.setopt(handle, CURLOPT_HEADERDATA, &transfer);
    // This machine is never asked for through a proxy.
    if (url.loopback()) curl_.setopt(handle, CURLOPT_PROXY, "");
    // As the curl program does.
    for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
      if (const char* file = std::getenv(variable); file != nullptr && *file != 0) {
        curl_.setopt(handle, CURLOPT_CAINFO, file);
        break;
      }
    }
  }

  Curl curl_;
};

}  // namespace

Result<std::unique_ptr<HttpTransport>> open_curl() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return environment_error("there is no libcurl (libcurl.so.4)");
  Curl curl;
  const bool found = find_symbol(library, "curl_global_init", curl.global_init) &&
                     find_symbol(library, "curl_version", curl.version) &&
                     find_symbol(library, "curl_easy_init", curl.easy_init) &&
                     find_symbol(library, "curl_easy_cleanup", curl.easy_cleanup) &&
                     find_symbol(library, "curl_easy_setopt", curl.setopt) &&
                     find_symbol(library, "curl_easy_perform", curl.perform) &&
                     find_symbol(library, "curl_easy_getinfo", curl.getinfo) &&
                     find_symbol(library, "curl_easy_strerror", curl.strerror) &&
                     find_symbol(library, "curl_slist_append", curl.slist_append) &&
                     find_symbol(library, "curl_slist_free_all", curl.slist_free_all);
  if (!found) return environment_error(fmt::format("libcurl: {}", dlerror()));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return environment_error("libcurl cannot be initialised");
  return std::unique_ptr<HttpTransport>(std::make_unique<CurlTransport>(curl));
}

std::unique_ptr<HttpTransport> open_transport() {
  if (auto curl = open_curl()) return std::move(*curl);
  return open_plain();
}

}  // namespace warpsmith::llm

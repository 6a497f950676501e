// A blocking HTTP client that sends whatever bytes a test likes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace warpsmith::serve::testing {

struct Answer {
  int status = 0;  // 0: the connection ended without one
  std::string head, body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval limit{30, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      close(fd_);
      throw std::runtime_error("cannot connect");
    }
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(fd_); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  void end_of_input() { shutdown(fd_, SHUT_WR); }

  // The next answer of the connection.
  Answer receive() {
    Answer answer;
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return answer;
    }
    answer.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.c_str() + sizeof("HTTP/1.1"));
    const std::size_t at = answer.head.find("Content-Length: ");
    const std::size_t length =
        at == std::string::npos ? 0 : std::strtoul(answer.head.c_str() + at + sizeof("Content-Length:"), nullptr, 10);
    while (buffer_.size() < length && read_more()) continue;
    answer.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return answer;
  }
  // True once the server has closed the connection.
  bool closed() { return !read_more(); }

  static std::string request(const std::string& method, const std::string& target, const std::string& body = "",
                             const std::string& headers = "") {
    std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers;
    if (method == "POST") {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
    }
    return text + "\r\n" + body;
  }
  Answer ask(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& headers = "") {
    send(request(method, target, body, headers));
    return receive();
  }

 private:
  bool read_more() {
    char bytes[65536];
    const auto count = recv(fd_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int fd_;
  std::string buffer_;
};

}  // namespace warpsmith::serve::testing

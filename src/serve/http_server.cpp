// Connections over Boost.Beast: each one reads a head, asks the handler, reads the body, asks again and answers, on a
// strand of its own.
#include "serve/http_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace warpsmith::serve {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

constexpr double kLingerSeconds = 2;  // for a client that still sends to read why it is refused

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

std::string text_of(beast::string_view view) { return std::string(view.data(), view.size()); }

// What all connections share.
struct Shared {
  Shared(const HttpOptions& chosen, HttpHandler& answerer) : options(chosen), handler(answerer) {}

  const HttpOptions options;
  HttpHandler& handler;
  std::atomic<int> connections{0};
  std::atomic<bool> finishing{false};
  std::mutex mutex;
  std::condition_variable answered;
  int pending = 0;  // requests without their answer

  void begin() {
    const std::lock_guard lock(mutex);
    ++pending;
  }
  void end() {
    const std::lock_guard lock(mutex);
    --pending;
    answered.notify_all();
  }
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    settle();
    --shared_->connections;
  }

  void run() {
    asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->read_head(); });
  }
  // Answers before anything is read.
  void turn_away(HttpResponse response) {
    asio::dispatch(stream_.get_executor(), [self = shared_from_this(), response = std::move(response)]() mutable {
      self->keep_alive_ = false;
      self->write(std::move(response));
    });
  }

 private:
  void read_head() {
    parser_.emplace();
    parser_->header_limit(shared_->options.most_header_bytes);
    parser_->body_limit(shared_->options.most_body_bytes);
    stream_.expires_after(milliseconds(first_ ? shared_->options.read_seconds : shared_->options.idle_seconds));
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, std::size_t) { self->on_head(error); });
  }

  void on_head(error_code error) {
    if (error) return on_read_error(error);
    first_ = false;
    const auto& message = parser_->get();
    keep_alive_ = message.keep_alive();
    request_ = {};
    request_.method = text_of(message.method_string());
    const std::string target = text_of(message.target());
    const std::size_t question = target.find('?');
    request_.path = target.substr(0, question);
    if (question != std::string::npos) request_.query = target.substr(question + 1);
    request_.authorization = text_of(message[http::field::authorization]);
    request_.content_type = text_of(message[http::field::content_type]);
    owe();
    HttpResponse admitted = shared_->handler.admit(request_);
    if (admitted.status != 200) {
      if (!parser_->is_done()) keep_alive_ = false;  // its body is not read
      return write(std::move(admitted));
    }
    stream_.expires_after(milliseconds(shared_->options.read_seconds));
    if (beast::iequals(message[http::field::expect], "100-continue")) return write_continue();
    read_body();
  }

  void write_continue() {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (!error) self->read_body();
                      });
  }

  void read_body() {
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->on_read_error(error);
      self->request_.body = std::move(self->parser_->get().body());
      self->answer();
    });
  }

  void answer() {
    stream_.expires_never();
    shared_->handler.handle(std::move(request_), [self = shared_from_this()](HttpResponse response) {
      asio::post(self->stream_.get_executor(),
                 [self, response = std::move(response)]() mutable { self->write(std::move(response)); });
    });
  }

  void write(HttpResponse response) {
    response_ = {};
    response_.version(11);
    response_.result(static_cast<unsigned>(response.status));
    response_.set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) response_.set(name, value);
    if (shared_->finishing) keep_alive_ = false;
    response_.keep_alive(keep_alive_);
    response_.body() = std::move(response.body);
    response_.prepare_payload();
    stream_.expires_after(milliseconds(shared_->options.read_seconds));
    http::async_write(stream_, response_, [self = shared_from_this()](error_code error, std::size_t) {
      self->settle();
      if (error) return;
      if (self->keep_alive_) return self->read_head();
      self->linger();
    });
  }

  void on_read_error(error_code error) {
    if (error == http::error::end_of_stream) return linger();
    keep_alive_ = false;
    if (error == beast::error::timeout) {
      // Beast has closed the socket: there is nobody left to answer.
      return settle();
    }
    if (error.category() != http::make_error_code(http::error::end_of_stream).category()) return settle();
    int status = 400;
    std::string reason = error.message();
    if (error == http::error::body_limit) {
      status = 413;
      reason = fmt::format("the body is larger than {} bytes", shared_->options.most_body_bytes);
    } else if (error == http::error::header_limit) {
      status = 431;
      reason = fmt::format("the request's head is larger than {} bytes", shared_->options.most_header_bytes);
    } else if (error == http::error::partial_message) {
      reason = "the request ends within its head or body";
    }
    owe();
    write(shared_->handler.refuse(status, reason));
  }

  // Closes so that the answer arrives: what the client still sends is read and dropped for a moment.
  void linger() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(milliseconds(kLingerSeconds));
    drop();
  }
  void drop() {
    stream_.async_read_some(asio::buffer(dropped_), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->drop();
    });
  }

  void owe() {
    if (!std::exchange(owing_, true)) shared_->begin();
  }
  void settle() {
    if (std::exchange(owing_, false)) shared_->end();
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::shared_ptr<Shared> shared_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
  HttpRequest request_;
  std::array<char, 4096> dropped_{};
  bool first_ = true, keep_alive_ = true, owing_ = false;
};

Result<tcp::endpoint> endpoint_of(const std::string& address, int port) {
  error_code error;
  const auto parsed = asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  if (error) return bad_input(fmt::format("'{}' is not an address; accepted: an IP address, or localhost", address));
  return tcp::endpoint(parsed, static_cast<unsigned short>(port));
}

class BeastServer final : public HttpServer {
 public:
  BeastServer(const HttpOptions& options, HttpHandler& handler)
      : shared_(std::make_shared<Shared>(options, handler)),
        acceptor_(asio::make_strand(context_)),
        pause_(acceptor_.get_executor()) {}

  ~BeastServer() override {
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  Status listen() {
    const auto endpoint = endpoint_of(shared_->options.address, shared_->options.port);
    if (!endpoint) return endpoint.error();
    error_code error;
    acceptor_.open(endpoint->protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(*endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return environment_error(
          fmt::format("cannot listen on {}:{}: {}", shared_->options.address, shared_->options.port, error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    asio::post(acceptor_.get_executor(), [this] { accept(); });
    for (int i = 0; i < std::max(1, shared_->options.threads); ++i) threads_.emplace_back([this] { context_.run(); });
    return ok_status();
  }

  int port() const override { return port_; }
  int connections() const override { return shared_->connections; }

  void finish(double seconds) override {
    shared_->finishing = true;
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    std::unique_lock lock(shared_->mutex);
    shared_->answered.wait_for(lock, milliseconds(seconds), [this] { return shared_->pending == 0; });
  }

 private:
  void accept() {
    acceptor_.async_accept(asio::make_strand(context_), [this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open() || error == asio::error::operation_aborted) return;
      if (error) {
        // Out of file descriptors, most likely: better later than at full speed.
        pause_.expires_after(milliseconds(0.1));
        pause_.async_wait([this](error_code aborted) {
          if (!aborted) accept();
        });
        return;
      }
      const auto connection = std::make_shared<Connection>(std::move(socket), shared_);
      if (shared_->connections > shared_->options.most_connections) {
        connection->turn_away(shared_->handler.refuse(
            503, fmt::format("there are {} connections already", shared_->options.most_connections)));
      } else {
        connection->run();
      }
      accept();
    });
  }

  std::shared_ptr<Shared> shared_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::vector<std::thread> threads_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpOptions& options, HttpHandler& handler) {
  auto server = std::make_unique<BeastServer>(options, handler);
  if (const Status status = server->listen(); !status) return status.error();
  return std::unique_ptr<HttpServer>(std::move(server));
}

Result<bool> is_loopback(const std::string& address) {
  const auto endpoint = endpoint_of(address, 0);
  if (!endpoint) return endpoint.error();
  return endpoint->address().is_loopback();
}

}  // namespace warpsmith::serve

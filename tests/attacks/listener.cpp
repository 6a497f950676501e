// One bound socket; connections wait in its queue.
#include "listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/result.h"

namespace warpsmith::attacks {

Listener::Listener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(socket_, 8) != 0) {
    throw EnvironmentError("cannot listen on a local port");
  }
}

Listener::~Listener() { close(socket_); }

bool Listener::heard() const {
  pollfd waiting{socket_, POLLIN, 0};
  return poll(&waiting, 1, 100) > 0;
}

}  // namespace warpsmith::attacks

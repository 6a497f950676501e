// A listener on a local port, to learn whether a candidate can send what it knows.
#pragma once

namespace warpsmith::attacks {

class Listener {
 public:
  explicit Listener(int port);  // throws EnvironmentError where the port is taken
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();
  bool heard() const;  // somebody has connected

 private:
  int socket_ = -1;
};

}  // namespace warpsmith::attacks

// Stands in for the process that runs foreign code, and misbehaves as told: fake_host BEHAVIOUR. Knows the lines of the
// protocol and nothing of CUDA.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/subprocess.h"

namespace {

using nlohmann::json;

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Answers one command in the way asked for.
void answer(const std::string& behaviour, const json& command, warpsmith::ParentChannel& channel) {
  const json honest = {{"id", command.at("id")}, {"code", 0}, {"device_us", 5}, {"host_us", 6}, {"settle_us", 0}};
  if (behaviour == "honest") channel.send(honest.dump());
  if (behaviour == "slow") {
    sleep_seconds(0.2);
    channel.send(honest.dump());
  }
  if (behaviour == "dies") std::abort();
  if (behaviour == "exits") _exit(0);
  if (behaviour == "hangs") sleep_seconds(1000);
  if (behaviour == "closes") {
    close(3);
    sleep_seconds(1000);
  }
  if (behaviour == "floods") {
    while (channel.send("{\"id\":1}")) {
    }
  }
  if (behaviour == "endless-line") {
    const std::string part(1 << 20, 'x');
    while (write(3, part.data(), part.size()) > 0) {
    }
  }
  if (behaviour == "forges") {  // an answer before the work is done, and then the real one
    channel.send(honest.dump());
    channel.send(honest.dump());
  }
  if (behaviour == "guesses") {  // answers with other ids, then the right one
    for (int id = 0; id < 5; ++id) channel.send(json{{"id", id}, {"code", 0}}.dump());
    channel.send(honest.dump());
  }
  if (behaviour == "garbles") {
    channel.send("not json");
    channel.send("[1, 2]");
    channel.send(std::string(5000, '['));
    channel.send(R"({"id": "text"})");
    channel.send(R"({"id": -1})");
    channel.send(honest.dump());
  }
  if (behaviour == "threads") {
    for (int i = 0; i < 40; ++i) std::thread([] { sleep_seconds(1000); }).detach();
    sleep_seconds(1000);
  }
  if (behaviour == "hoards") {
    std::vector<char*> kept;
    for (int i = 0; i < 64; ++i) {
      kept.push_back(static_cast<char*>(std::malloc(16 << 20)));
      std::memset(kept.back(), i, 16 << 20);
    }
    sleep_seconds(1000);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  warpsmith::ParentChannel channel;
  for (std::string line; channel.receive(line);) answer(argv[1], json::parse(line), channel);
  return 0;
}

// warpsmith-worker-cuda: proves and times candidates on one CUDA device for its parent. Exit code 3: no usable device.
#include <charconv>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/subprocess.h"
#include "evaluate/cuda/cuda_backend.h"
#include "evaluate/protocol.h"

namespace {

constexpr int kEnvironmentFault = 3;

// The parent's first request is answered with what is missing.
int report(const warpsmith::Error& error) {
  std::cerr << "warpsmith-worker-cuda: " << error.message << "\n";
  warpsmith::ParentChannel channel;
  std::string request;
  if (channel.receive(request)) channel.send(nlohmann::json{{"error", warpsmith::error_to_json(error)}}.dump());
  return kEnvironmentFault;
}

}  // namespace

int main(int argc, char** argv) {
  int device = 0;
  if (argc == 3 && std::strcmp(argv[1], "--device") == 0) {
    std::from_chars(argv[2], argv[2] + std::strlen(argv[2]), device);
  } else if (argc != 1) {
    std::cerr << "usage: warpsmith-worker-cuda [--device ORDINAL]\n";
    return 2;
  }
  auto backend = warpsmith::make_cuda_backend(device);
  if (!backend.ok()) return report(backend.error());
  return warpsmith::serve_worker(**backend);
}

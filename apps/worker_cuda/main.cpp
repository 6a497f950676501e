// warpsmith-worker-cuda: proves and times candidates on one CUDA device for its parent, or launches one for
// compute-sanitizer to watch. Exit code 3: no usable device.
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/file.h"
#include "base/subprocess.h"
#include "evaluate/cuda/cuda_backend.h"
#include "evaluate/cuda/sanitizer_run.h"
#include "evaluate/protocol.h"
#include "evaluate/task_judge.h"
#include "task/cuda/cuda_task_device.h"
#include "task/cuda/task_sanitizer_run.h"

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

// Launches the candidate alone, for compute-sanitizer to watch.
int run_request(const std::string& path, int device) {
  const auto text = warpsmith::read_file(path);
  if (!text.ok()) {
    std::cerr << "warpsmith-worker-cuda: " << text.error().message << "\n";
    return 2;
  }
  const auto request = nlohmann::json::parse(*text, nullptr, false);
  const warpsmith::Status ran = request.is_object() && request.contains("task")
                                    ? warpsmith::task::run_for_sanitizer(request["task"], device)
                                    : warpsmith::run_for_sanitizer(request, device);
  if (ran.ok()) return 0;
  std::cerr << "warpsmith-worker-cuda: " << ran.error().message << "\n";
  return ran.error().kind == warpsmith::ErrorKind::environment ? kEnvironmentFault : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int device = 0;
  std::string sanitize;
  bool usable = argc % 2 == 1;
  for (int i = 1; usable && i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--device") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), device);
      usable = error == std::errc() && end == value.data() + value.size();
    } else if (name == "--sanitize") {
      sanitize = value;
    } else {
      usable = false;
    }
  }
  if (!usable) {
    std::cerr << "usage: warpsmith-worker-cuda [--device ORDINAL] [--sanitize REQUEST.json]\n";
    return 2;
  }
  if (!sanitize.empty()) return run_request(sanitize, device);
  auto backend = warpsmith::make_cuda_backend(device);
  if (!backend.ok()) return report(backend.error());
  const auto tasks =
      warpsmith::task::make_task_service(warpsmith::task::make_cuda_factory((*backend)->machine(), device));
  return warpsmith::serve_worker(**backend, *tasks);
}

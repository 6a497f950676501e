// The whole server: from options to a process that answers until it is told to end.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "evaluate/evaluator.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace warpsmith::serve {

struct OpenedDevice {
  std::string name;
  std::unique_ptr<Evaluator> evaluator;
};

struct ServerOptions {
  Target target = Target::cpu;
  int threads = 1;
  std::vector<OpenedDevice> devices;  // all of one type
  std::filesystem::path queue, archive, cache;
  TimingEffort effort;
  bool paired = false;  // as in JudgeOptions
  DispatchOptions dispatch;
  ServiceOptions service;  // its site's machine, target and threads and its devices are filled in
  HttpOptions http;
  double drain_seconds = 30;
};

struct Started {
  int port = 0;
  std::map<std::string, std::int64_t> elsewhere;  // jobs of the queue that wait for other sites (Store::elsewhere())
};

// Serves until `stop` is set, then drains.
Status run_server(ServerOptions options, const std::function<void(const Started&)>& started,
                  const std::atomic<bool>& stop);

}  // namespace warpsmith::serve

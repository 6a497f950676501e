// The parts in the order in which they need each other; they end in the reverse one.
#include "serve/server.h"

#include <chrono>
#include <thread>
#include <utility>

#include "archive/archive.h"
#include "compile/compile.h"
#include "serve/device_judge.h"

namespace warpsmith::serve {

namespace {
constexpr std::chrono::milliseconds kPoll{20};
constexpr double kLastAnswersSeconds = 5;  // for answers that are on their way
}  // namespace

Status run_server(ServerOptions options, const std::function<void(const Started&)>& started,
                  const std::atomic<bool>& stop) {
  ServiceOptions& chosen = options.service;
  chosen.site.machine = options.devices.front().evaluator->machine();
  chosen.site.target = options.target;
  chosen.site.threads = options.threads;
  for (const OpenedDevice& device : options.devices) chosen.devices.push_back(device.name);
  auto archive = Archive::open(options.archive);
  if (!archive) return archive.error();
  auto store = Store::open(options.queue, chosen.site, chosen.devices);
  if (!store) return store.error();
  const auto elsewhere = (*store)->elsewhere();
  if (!elsewhere) return elsewhere.error();
  const Compiler compiler({.cache = options.cache});
  Metrics metrics;
  std::vector<ServedDevice> devices;
  for (OpenedDevice& device : options.devices) {
    devices.push_back({device.name, make_device_judge({options.target, options.threads, options.effort, options.paired},
                                                      std::move(device.evaluator), compiler, **archive, **store)});
  }
  const auto dispatcher = Dispatcher::start(options.dispatch, std::move(devices), **store, metrics);
  Service service(std::move(chosen), **store, *dispatcher, metrics);
  auto http = HttpServer::start(options.http, service);
  if (!http) return http.error();
  service.count_connections([server = http->get()] { return server->connections(); });
  started({(*http)->port(), *elsewhere});
  while (!stop) std::this_thread::sleep_for(kPoll);
  service.begin_drain();
  dispatcher->drain(options.drain_seconds);
  (*http)->finish(kLastAnswersSeconds);
  return ok_status();
}

}  // namespace warpsmith::serve
